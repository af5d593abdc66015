#include "supervisor/git.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "supervisor/confinement.h"

namespace interlock::supervisor {
namespace {

// Checking out a large repository takes its time; a caller that waits longer waits for something broken.
constexpr auto git_timeout = std::chrono::minutes(10);

std::vector<std::string> environment() {
    return {"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_EDITOR=false",
            "GIT_SEQUENCE_EDITOR=false",
            // No transport: nothing is fetched, and no program of a transport starts.
            "GIT_ALLOW_PROTOCOL=",
            // What counts is which commits there are, not what they are shown as.
            "GIT_NO_REPLACE_OBJECTS=1",
            // What is saved is a commit of ours, whoever's files are in it and whether or not they told git their name.
            "GIT_AUTHOR_NAME=Interlock", "GIT_AUTHOR_EMAIL=interlock@localhost", "GIT_COMMITTER_NAME=Interlock",
            "GIT_COMMITTER_EMAIL=interlock@localhost"};
}

// trustctime and checkStat make git see every change of a file, also where it was told to save the effort. The waits
// are for people who use git in the same repository. A commit graph is a file that can say what is not so.
std::vector<std::string> settings() {
    return {"core.hooksPath=/dev/null",     "core.fsmonitor=false",
            "core.untrackedCache=false",    "gc.auto=0",
            "maintenance.auto=false",       "submodule.recurse=false",
            "advice.detachedHead=false",    "core.filesRefLockTimeout=10000",
            "core.packedRefsTimeout=10000", "core.trustctime=true",
            "core.checkStat=default",       "core.commitGraph=false"};
}

}  // namespace

Git Git::in(const std::string& dir) {
    Git git;
    git.settings_ = settings();
    git.options_.dir = dir;
    git.options_.env = environment();
    git.options_.timeout = git_timeout;
    git.confinement_ = std::make_shared<OpenFile>(confine_git({}));
    return git;
}

Git Git::of_repository(const std::string& common_dir) {
    Git git = in("/");
    git.look_through_a_view(common_dir, common_dir);
    git.confinement_ = std::make_shared<OpenFile>(confine_git({common_dir}));
    return git;
}

Git Git::of_worktree(const std::string& common_dir, const std::string& git_dir, const std::string& path) {
    // From anywhere else: below the worktree git would look at that part only, and the worktree may be gone.
    Git git = in("/");
    git.look_through_a_view(common_dir, git_dir);
    git.options_.env.push_back("GIT_WORK_TREE=" + path);
    git.confinement_ = std::make_shared<OpenFile>(confine_git({common_dir, path}));
    return git;
}

void Git::look_through_a_view(const std::string& common_dir, const std::string& git_dir) {
    view_ = std::make_shared<const Result<RepositoryView, std::string>>(RepositoryView::make(common_dir, git_dir));
    options_.env.push_back("GIT_DIR=" + git_dir);
    if (*view_) options_.env.push_back("GIT_COMMON_DIR=" + (*view_)->dir());
    // The user's own settings have been read for the view. Programs that they name, such as git-lfs, read settings of
    // the repository that name others.
    for (const char* none : {"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}) options_.env.emplace_back(none);
}

Git Git::with_env(std::string variable) const {
    Git git = *this;
    git.options_.env.push_back(std::move(variable));
    return git;
}

Git Git::with_setting(std::string setting) const {
    Git git = *this;
    git.settings_.push_back(std::move(setting));
    return git;
}

Git Git::with_output_max(std::size_t bytes) const {
    Git git = *this;
    git.options_.output_max = bytes;
    return git;
}

std::string Git::setting(std::string_view key) const { return view_ && *view_ ? (*view_)->setting(key) : ""; }

Result<SubprocessResult, std::string> Git::run(std::vector<std::string> arguments, std::string input) const {
    if (view_ && !*view_) return fail(view_->error());
    std::vector<std::string> argv = {"git", "--no-pager", "--literal-pathspecs"};
    for (const std::string& setting : settings_) argv.insert(argv.end(), {"-c", setting});
    argv.insert(argv.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
    ProgramOptions options = options_;
    options.input = std::move(input);
    if (confinement_) options.confinement = confinement_->fd();
    return run_program(argv, options);
}

Result<std::string, std::string> Git::ask(std::vector<std::string> arguments, std::string input) const {
    const std::string what = arguments.at(0);
    auto finished = run(std::move(arguments), std::move(input));
    if (!finished) return fail(std::move(finished.error()));
    if (finished->exit_code == 0) return std::move(finished->out);
    std::string why = in_its_own_words(what, *finished);
    if (view_ && *view_ && (*view_)->partial()) {
        why +=
            "; this is a partial clone, and the server fetches nothing: fetch what is missing first, for example by "
            "a checkout";
    }
    return fail(std::move(why));
}

Result<std::string, std::string> Git::line(std::vector<std::string> arguments) const {
    auto answer = ask(std::move(arguments));
    if (answer && answer->ends_with('\n')) answer->pop_back();
    return answer;
}

Result<std::string, std::string> Git::object(const std::string& name) const {
    const auto finished = run({"rev-parse", "--verify", "--quiet", "--end-of-options", name});
    if (!finished) return fail(finished.error());
    if (finished->exit_code == 1) return std::string();
    if (finished->exit_code != 0) return fail(in_its_own_words("rev-parse", *finished));
    return finished->out.substr(0, finished->out.find('\n'));
}

std::string in_its_own_words(std::string_view command, const SubprocessResult& finished) {
    std::string why;
    for (const std::string& line : lines_of(finished.err)) {
        const bool marked = line.starts_with("fatal: ") || line.starts_with("error: ");
        if (marked || why.empty()) why = marked ? line.substr(7) : line;
        if (marked) break;
    }
    if (why.empty()) why = fmt::format("exit code {}", finished.exit_code);
    return fmt::format("git {} failed: {}", command, why);
}

bool is_object_name(std::string_view text) {
    return (text.size() == 40 || text.size() == 64) &&
           std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }) &&
           text.find_first_not_of('0') != std::string_view::npos;
}

std::vector<std::string> pieces(std::string_view text, char separator) {
    std::vector<std::string> found;
    while (!text.empty()) {
        const auto end = text.find(separator);
        found.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return found;
}

}  // namespace interlock::supervisor
