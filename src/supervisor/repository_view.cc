#include "supervisor/repository_view.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/confinement.h"
#include "supervisor/file_tree.h"
#include "supervisor/git.h"
#include "supervisor/subprocess.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

// An included file may be anything, a pipe that no process writes too.
constexpr auto read_timeout = std::chrono::seconds(20);

// How files and objects are stored. Extensions follow, see is_taken().
constexpr std::array<std::string_view, 14> taken_keys = {"core.repositoryformatversion",
                                                         "core.bare",
                                                         "core.filemode",
                                                         "core.symlinks",
                                                         "core.ignorecase",
                                                         "core.precomposeunicode",
                                                         "core.autocrlf",
                                                         "core.eol",
                                                         "core.excludesfile",
                                                         "core.attributesfile",
                                                         "core.logallrefupdates",
                                                         "core.sharedrepository",
                                                         "core.sparsecheckout",
                                                         "core.sparsecheckoutcone"};

// What the view shows of the common directory. Hooks, modules, other worktrees and `info/grafts` are not entries_shown.
constexpr std::array<std::string_view, 7> entries_shown = {"objects", "refs",         "packed-refs",    "logs",
                                                           "shallow", "info/exclude", "info/attributes"};

std::string& views_dir() {
    static std::string dir = fs::temp_directory_path().string();
    return dir;
}

// An extension says how the repository is stored, and a git that does not know it must refuse. These two are left out:
// the first would have git start a remote's programs, the second read settings of the worktree.
bool is_taken(std::string_view key) {
    constexpr std::string_view extension = "extensions.";
    if (!key.starts_with(extension)) return std::ranges::find(taken_keys, key) != taken_keys.end();
    const std::string_view name = key.substr(extension.size());
    const bool plain =
        std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
    return plain && !name.empty() && name != "partialclone" && name != "worktreeconfig";
}

std::string as_config_value(std::string_view value) {
    std::string text = "\"";
    for (const char c : value) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return text + '"';
}

}  // namespace

Result<RepositoryView, std::string> RepositoryView::make(const std::string& common_dir, const std::string& git_dir) {
    // 1. Read. git starts nothing to list its settings.
    const OpenFile ruleset = confine_git({});
    const auto listed = run_program({"git", "--no-pager", "config", "--list", "--null", "--includes"},
                                    {.dir = common_dir,
                                     .env = {"LC_ALL=C", "GIT_DIR=" + git_dir, "GIT_COMMON_DIR=" + common_dir},
                                     .timeout = read_timeout,
                                     .confinement = ruleset.fd(),
                                     .waits_for_no_fifo = true});
    if (!listed) return fail(listed.error());
    if (listed->exit_code != 0) return fail(in_its_own_words("config", *listed));

    // 2. Take what is on the list.
    RepositoryView view;
    std::string config;
    for (const std::string& entry : pieces(listed->out, '\0')) {
        const auto end = entry.find('\n');
        const std::string key = entry.substr(0, end);
        const std::string value = end == std::string::npos ? "true" : entry.substr(end + 1);
        view.partial_ = view.partial_ || key == "extensions.partialclone" ||
                        (key.starts_with("remote.") && key.ends_with(".promisor"));
        if (key == "extensions.refstorage" && value != "files") {
            return fail(fmt::format("{} stores its refs as '{}'; worktrees are made with the storage 'files' only",
                                    common_dir, value));
        }
        // Not for git, but worktrees that are made copy it.
        if (key == "extensions.worktreeconfig") view.settings_.push_back({.key = key, .value = value});
        if (!is_taken(key)) continue;
        const auto dot = key.find('.');
        config += fmt::format("[{}]\n\t{} = {}\n", key.substr(0, dot), key.substr(dot + 1), as_config_value(value));
        view.settings_.push_back({.key = key, .value = value});
    }

    // 3. Write it down.
    std::string dir = views_dir() + "/git-view-XXXXXX";
    if (mkdtemp(dir.data()) == nullptr) return fail(fmt::format("cannot make {}: {}", dir, std::strerror(errno)));
    view.dir_ = dir;
    bool good = put_file(dir, "config", {.bytes = config}).value_or(false);
    for (const std::string_view name : entries_shown) {
        const FileContent link{.kind = FileContent::Kind::link, .bytes = fmt::format("{}/{}", common_dir, name)};
        good = good && put_file(dir, std::string(name), link).value_or(false);
    }
    if (!good) return fail(fmt::format("cannot fill {}", dir));
    return view;
}

RepositoryView::~RepositoryView() {
    if (!dir_.empty()) (void)remove_tree(dir_);
}

std::string RepositoryView::setting(std::string_view key) const {
    std::string value;
    for (const Setting& each : settings_) {
        if (each.key == key) value = each.value;
    }
    return value;
}

void RepositoryView::keep_in(const std::string& dir) {
    (void)remove_tree(dir);
    std::error_code error;
    fs::create_directories(dir, error);
    if (!error) views_dir() = dir;
}

}  // namespace interlock::supervisor
