// Directories as trees of files: reading, copying, measuring and removing them. Nothing here follows a symbolic link,
// and nothing changes this process's working directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "base/result.h"

namespace interlock::supervisor {

// Of what is there under this name, not of what a link leads to; empty when there is nothing.
std::optional<struct stat> status_of(const std::string& path);
bool is_directory(const std::string& path);

// Empty when there is no such file, it cannot be read, or it is no regular file: opening a pipe could wait for ever.
std::optional<std::string> read_file(const std::string& path);

// Replaced at once, and on disk when this returns.
Result<void, std::string> write_file_durably(const std::string& path, std::string_view text);

// What one file of a tree is: the bytes of a regular file, or where a link leads.
struct FileContent {
    enum class Kind { regular, executable, link };
    Kind kind = Kind::regular;
    std::string bytes;
};

// Makes the file `name` below `top`, and the directories that lead to it. Refused when one of those is a link or no
// directory: then it would not lie below `top`. An existing file is left as it is, and the answer is false.
Result<bool, std::string> put_file(const std::string& top, const std::string& name, const FileContent& content);

// The same with the content, permissions and time of the file of that name below `from`. What is neither a file nor a
// link is left out, and so is what is gone. Holes stay holes. `bytes_left` is what may still be copied, and less
// afterwards by what was; a file that needs more is an error.
Result<bool, std::string> copy_file(const std::string& from, const std::string& top, const std::string& name,
                                    std::uint64_t& bytes_left);

// Copies the regular file `from` to the new name `to` in the same directory, with its time. False when there is no
// such file. A link is an error under either name.
Result<bool, std::string> copy_within(const std::string& dir, const std::string& from, const std::string& to);

// The file, and the directories above it that it leaves empty. There being no such file is no error.
Result<void, std::string> take_file(const std::string& top, const std::string& name);

// The directory `name` below `top`, made under the same conditions.
Result<void, std::string> put_directory(const std::string& top, const std::string& name);

// With everything in it, also where directories are not writable. There being nothing is no error.
Result<void, std::string> remove_tree(const std::string& path);

// Repositories below, by the directories they are in; not the one whose worktree `path` itself is. An error when
// something cannot be looked into.
Result<std::vector<std::string>, std::string> repositories_inside(const std::string& path);

}  // namespace interlock::supervisor
