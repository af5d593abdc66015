#include "supervisor/registration.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/sha256.h"
#include "supervisor/file_tree.h"

namespace interlock::supervisor {
namespace {

using State = Registration::State;

constexpr std::string_view mark_name = "/interlock";
constexpr auto lock_wait_max = std::chrono::minutes(15);
constexpr auto lock_wait_step = std::chrono::milliseconds(10);
constexpr std::size_t run_name_max = 200;

std::string mark_text(const std::string& run, State state) {
    return fmt::format("{} {}\n", state == State::removing ? "removing" : "made", run);
}

std::optional<std::string> read_trimmed(const std::string& path) {
    auto text = read_file(path);
    // git ends these files with one line end; what comes before it may be part of a path.
    if (text && text->ends_with('\n')) text->pop_back();
    return text;
}

}  // namespace

std::string lock_reason(const std::string& run) { return "interlock " + run; }
std::string base_ref(const std::string& run) { return "refs/interlock/base/" + run; }
std::string kept_ref(const std::string& run) { return "refs/interlock/kept/" + run; }
std::string branch_ref(const std::string& branch) { return "refs/heads/" + branch; }

Result<void, std::string> check_run_name(const std::string& run) {
    const auto good = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    };
    if (run.empty() || run.size() > run_name_max || !std::ranges::all_of(run, good)) {
        return fail(fmt::format("\"{}\" is no name of a run: letters, digits, _ and - are", run));
    }
    return {};
}

Result<std::string, std::string> common_dir_of(const std::string& dir) {
    // An empty one would be wherever this process happens to be.
    if (!dir.starts_with('/')) return fail(fmt::format("\"{}\" is not an absolute path", dir));
    auto found = Git::in(dir).line({"rev-parse", "--path-format=absolute", "--git-common-dir"});
    if (!found) return found;
    // The lock is named after it, so it has one spelling.
    std::error_code error;
    const auto canonical = std::filesystem::canonical(*found, error);
    if (error) return fail(fmt::format("cannot use the repository {}: {}", *found, error.message()));
    return canonical.string();
}

std::string main_worktree_of(const std::string& common_dir) {
    const std::filesystem::path dir(common_dir);
    if (dir.filename() != ".git") return common_dir;
    // A bare repository may be called .git too.
    return Git::of_repository(common_dir).setting("core.bare") == "true" ? common_dir : dir.parent_path().string();
}

std::optional<Registration> find_registration(const std::string& common_dir, const std::string& run) {
    std::optional<Registration> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entries(common_dir + "/worktrees", error), end; !error && entries != end;
         entries.increment(error)) {
        const std::string git_dir = entries->path();
        const auto lock = read_trimmed(git_dir + "/locked");
        const auto marked = read_file(git_dir + std::string(mark_name));
        const bool made = marked == mark_text(run, State::made);
        const bool removing = marked == mark_text(run, State::removing);
        if (!made && !removing && (marked || lock != lock_reason(run))) continue;

        std::string path = read_trimmed(git_dir + "/gitdir").value_or("");
        if (path.ends_with("/.git")) path.resize(path.size() - 5);
        found = Registration{.state = made       ? State::made
                                      : removing ? State::removing
                                                 : State::half_made,
                             .common_dir = common_dir,
                             .git_dir = git_dir,
                             .path = std::move(path),
                             .lock = lock};
        // Another run can write this run's name into its own git directory, but not what the worktree points to.
        if (leads_back(*found)) return found;
    }
    return found;
}

Result<Registration, std::string> register_worktree(const std::string& common_dir, const std::string& run,
                                                    const std::string& path, const std::string& head) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return fail(fmt::format("cannot make {}: {}", path, error.message()));
    if (!std::filesystem::is_empty(path, error) || error) return fail(fmt::format("{} already exists", path));
    // A name that is taken is of a worktree that is gone from disk, or of another run.
    std::string name = run;
    for (int i = 1; status_of(common_dir + "/worktrees/" + name); ++i) name = fmt::format("{}-{}", run, i);
    const std::string git_dir = fmt::format("{}/worktrees/{}", common_dir, name);

    // The lock comes first; see the head of registration.h.
    const auto put = [](const std::string& top, const std::string& file, std::string text) {
        return put_file(top, file, {.bytes = std::move(text) + "\n"});
    };
    for (const auto& [file, text] : {std::pair("locked", lock_reason(run)), std::pair("gitdir", path + "/.git"),
                                     std::pair("commondir", std::string("../..")), std::pair("HEAD", head)}) {
        const auto done = put(common_dir, fmt::format("worktrees/{}/{}", name, file), text);
        if (!done) return fail(done.error());
        if (!*done) return fail(fmt::format("{}/{} already exists", git_dir, file));
    }
    const auto linked = put(path, ".git", "gitdir: " + git_dir);
    if (!linked) return fail(linked.error());
    if (!*linked) return fail(fmt::format("{}/.git already exists", path));
    return Registration{.state = State::half_made,
                        .common_dir = common_dir,
                        .git_dir = git_dir,
                        .path = path,
                        .lock = lock_reason(run)};
}

Result<void, std::string> unregister(const Registration& registration) {
    if (auto gone = remove_tree(registration.git_dir); !gone) return gone;
    // git has this directory only while it has worktrees.
    rmdir((registration.common_dir + "/worktrees").c_str());
    return {};
}

Result<void, std::string> mark(const Registration& registration, const std::string& run, State state) {
    return write_file_durably(registration.git_dir + std::string(mark_name), mark_text(run, state));
}

bool leads_back(const Registration& registration) {
    return !registration.path.empty() && is_directory(registration.path) &&
           read_trimmed(registration.path + "/.git") == "gitdir: " + registration.git_dir;
}

Result<void, std::string> discard_half_made(const Registration& registration) {
    // Only what git made for it: a directory that somebody else has filled is left to them.
    if (leads_back(registration)) {
        if (auto gone = remove_tree(registration.path); !gone) return gone;
    }
    return unregister(registration);
}

Result<void, std::string> forget_worktree(const std::string& common_dir, const std::string& run,
                                          const std::string& branch) {
    const auto registration = find_registration(common_dir, run);
    if (registration && registration->state == State::half_made) {
        if (auto gone = discard_half_made(*registration); !gone) return gone;
    }
    const Git git = Git::of_repository(common_dir);
    const auto base = git.object(base_ref(run));
    if (!base) return fail(base.error());
    if (base->empty()) return {};
    const auto tip = git.object(branch_ref(branch));
    if (!tip) return fail(tip.error());
    if (*tip == *base) {
        if (auto gone = git.ask({"update-ref", "-d", branch_ref(branch), *tip}); !gone) return fail(gone.error());
    }
    if (auto gone = git.ask({"update-ref", "-d", base_ref(run)}); !gone) return fail(gone.error());
    return {};
}

Result<OpenFile, std::string> lock_repository(const std::string& lock_dir, const std::string& common_dir) {
    const std::string path = fmt::format("{}/repository-{}.lock", lock_dir, to_hex(sha256(common_dir)).substr(0, 32));
    OpenFile file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) return fail(fmt::format("cannot open the lock {}: {}", path, std::strerror(errno)));
    const auto deadline = std::chrono::steady_clock::now() + lock_wait_max;
    while (flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return fail(fmt::format("cannot lock {}: {}", path, std::strerror(errno)));
        }
        if (std::chrono::steady_clock::now() > deadline) {
            return fail(fmt::format("the repository {} was busy with other worktrees for too long", common_dir));
        }
        std::this_thread::sleep_for(lock_wait_step);
    }
    return file;
}

Result<std::string, std::string> canonical_path(const std::string& path) {
    const std::filesystem::path given = std::filesystem::path(path).lexically_normal();
    if (!given.is_absolute()) return fail(fmt::format("\"{}\" is not an absolute path", path));
    const std::filesystem::path named = given.has_filename() ? given : given.parent_path();
    std::error_code error;
    const auto above = std::filesystem::weakly_canonical(named.parent_path(), error);
    if (error) return fail(fmt::format("cannot resolve {}: {}", path, error.message()));
    return (above / named.filename()).string();
}

}  // namespace interlock::supervisor
