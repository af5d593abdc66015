// What git sees of a repository instead of its common directory: the objects, the refs and their logs by links, and a
// configuration that is written here.
//
//   (1) The configuration has only the keys of a list: how files and objects are stored. No key of the list names a
//       program, a remote or another file of settings, so git has nothing of the repository's to start. A key that a
//       later git adds is not on the list.
//   (2) It is read once, when the view is made. A change of the repository's configuration does not reach a git that
//       already has its view.
//   (3) A view is a directory of its own and goes with its object. Sandboxed runs cannot write it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace interlock::supervisor {

class RepositoryView {
 public:
    // Of the git directory `git_dir`, a worktree's or the common one.
    static Result<RepositoryView, std::string> make(const std::string& common_dir, const std::string& git_dir);
    RepositoryView(RepositoryView&& other) noexcept
        : dir_(std::exchange(other.dir_, {})), settings_(std::move(other.settings_)), partial_(other.partial_) {}
    RepositoryView& operator=(RepositoryView&&) = delete;
    ~RepositoryView();

    const std::string& dir() const { return dir_; }
    // The last value of a key of the list; empty when there is none.
    std::string setting(std::string_view key) const;
    bool has(std::string_view key, std::string_view value) const { return setting(key) == value; }
    // The repository leaves objects with a remote until they are needed. They cannot be fetched through a view.
    bool partial() const { return partial_; }

    // The directory for the views of this process. It is emptied first. Without this call they are in the system's
    // directory for temporary files.
    static void keep_in(const std::string& dir);

 private:
    RepositoryView() = default;

    struct Setting {
        std::string key;
        std::string value;
    };

    std::string dir_;
    std::vector<Setting> settings_;
    bool partial_ = false;
};

}  // namespace interlock::supervisor
