#include "supervisor/saved_work.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "base/sha256.h"
#include "supervisor/file_tree.h"
#include "supervisor/worktree_changes.h"
#include "supervisor/worktree_commits.h"

namespace interlock::supervisor {
namespace {

// How much is asked of git at once while bringing files back; a larger file is asked for by itself.
constexpr std::size_t read_at_once_max = std::size_t{32} * 1024 * 1024;

// A file as it is on disk. No mode: there is none.
struct FileNow {
    std::string name;
    std::string mode;
    std::string object;

    friend bool operator==(const FileNow&, const FileNow&) = default;
};

enum class StoreObjects { no, yes };

Result<Registration, std::string> find_to_save(const GitWorktree& worktree, const std::string& common_dir);
Result<std::vector<ChangedFile>, std::string> files_to_save(const IndexCopy& index, const Registration& registration);
Result<std::vector<FileNow>, std::string> files_now(const Git& git, const std::string& path,
                                                    const std::vector<ChangedFile>& files, StoreObjects store);
// The commit of what is staged; empty when nothing is.
Result<std::string, std::string> save_staged(const Git& git, const std::string& head);
Result<std::string, std::string> save_tree(const Git& git, const std::vector<FileNow>& files);
Result<std::string, std::string> save_commit(const Git& git, const std::string& tree, const SavedWork& saved,
                                             const std::vector<std::string>& tips, const std::string& before);
Result<void, std::string> read_back(const Git& git, const std::string& commit, const std::string& base,
                                    const std::vector<FileNow>& files);

// The settings of whoever uses the repository may trade safety for speed; what is saved here is deleted there.
Git careful(const Git& git) { return git.with_setting("core.fsync=all").with_setting("core.fsyncMethod=fsync"); }

}  // namespace

Result<std::string, std::string> save_work(const GitWorktree& worktree) {
    const auto common_dir = common_dir_of(worktree.repository);
    if (!common_dir) return fail(common_dir.error());
    const auto registration = find_to_save(worktree, *common_dir);
    if (!registration) return fail(registration.error());
    return save_work_at(worktree, *registration);
}

Result<std::string, std::string> save_work_at(const GitWorktree& worktree, const Registration& registration) {
    // 1. Look.
    const auto index = IndexCopy::make(registration);
    if (!index) return fail(index.error());
    const Git git = careful(index->git());
    const auto commits = commits_of(registration, registration.common_dir, worktree.branch);
    if (!commits) return fail(commits.error());
    const auto changed = files_to_save(*index, registration);
    if (!changed) return fail(changed.error());
    const auto before = git.object(kept_ref(worktree.run));
    if (!before) return fail(before.error());

    // 2. Write. What is staged comes first, because the copy of the index then becomes what is on disk.
    const auto staged = save_staged(git, commits->head);
    if (!staged) return fail(staged.error());
    const auto files = files_now(git, registration.path, *changed, StoreObjects::yes);
    if (!files) return fail(files.error());
    const auto tree = save_tree(git, *files);
    if (!tree) return fail(tree.error());
    const std::string subdirectory =
        worktree.directory.size() > worktree.path.size() ? worktree.directory.substr(worktree.path.size() + 1) : "";
    const auto commit = save_commit(git, *tree,
                                    {.run = worktree.run,
                                     .branch = worktree.branch,
                                     .branch_tip = commits->branch_tip,
                                     .head = commits->head,
                                     .head_ref = commits->head_ref,
                                     .base = worktree.base.empty() ? commits->head : worktree.base,
                                     .staged = *staged,
                                     .subdirectory = subdirectory},
                                    commits->tips, *before);
    if (!commit) return fail(commit.error());
    if (auto named = git.ask({"update-ref", kept_ref(worktree.run), *commit, *before}); !named)
        return fail(named.error());

    // 3. Read back, and look again: what changed meanwhile is in the commit by halves.
    const auto named = Git::of_repository(registration.common_dir).object(kept_ref(worktree.run));
    if (!named) return fail(named.error());
    if (*named != *commit) return fail(fmt::format("{} was written but is not there", kept_ref(worktree.run)));
    if (auto good = read_back(git, *commit, worktree.base, *files); !good) return fail(good.error());
    const auto index_after = IndexCopy::make(registration);
    if (!index_after) return fail(index_after.error());
    const auto changed_after = files_to_save(*index_after, registration);
    if (!changed_after) return fail(changed_after.error());
    const auto files_after = files_now(git, registration.path, *changed_after, StoreObjects::no);
    if (!files_after) return fail(files_after.error());
    const auto head_after = git.object("HEAD^{commit}");
    if (!head_after) return fail(head_after.error());
    if (*files_after != *files || *head_after != commits->head) {
        return fail(fmt::format("{} changed while it was being saved; try again", worktree.path));
    }
    return *commit;
}

namespace {

Result<Registration, std::string> find_to_save(const GitWorktree& worktree, const std::string& common_dir) {
    if (auto good = check_run_name(worktree.run); !good) return fail(good.error());
    auto registration = find_registration(common_dir, worktree.run);
    // What is being removed may be half gone already, and was saved when it was whole.
    if (!registration || registration->state != Registration::State::made || registration->path != worktree.path) {
        return fail(fmt::format("{} is not a worktree of run {} with something to save", worktree.path, worktree.run));
    }
    if (!leads_back(*registration) && status_of(worktree.path)) {
        return fail(fmt::format("{} is not the worktree that was made for run {}", worktree.path, worktree.run));
    }
    return std::move(*registration);
}

Result<std::vector<ChangedFile>, std::string> files_to_save(const IndexCopy& index, const Registration& registration) {
    // Of a worktree whose directory is gone, the commits and what was staged are left.
    if (!status_of(registration.path)) return std::vector<ChangedFile>();
    const auto inside = repositories_inside(registration.path);
    if (!inside) return fail(inside.error());
    if (!inside->empty()) {
        return fail(
            fmt::format("there is a repository in {}, and git does not save one inside of another", inside->front()));
    }
    auto files = changed_files(index);
    if (!files) return fail(std::move(files.error()));
    for (const ChangedFile& file : *files) {
        if (file.submodule || file.name.ends_with('/')) {
            return fail(fmt::format("{} is a repository of its own, whose files cannot be saved", file.name));
        }
    }
    return files;
}

// As git reads a path that begins with a quotation mark.
std::string quoted_path(std::string_view path) {
    std::string text = "\"";
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = byte > ' ' && byte < 0x7f && c != '"' && c != '\\';
        text += plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
    }
    return text + "\"\n";
}

Result<std::vector<FileNow>, std::string> files_now(const Git& git, const std::string& path,
                                                    const std::vector<ChangedFile>& files, StoreObjects store) {
    std::vector<FileNow> now;
    std::vector<std::size_t> regular;
    std::string regular_paths;
    // --no-filters: the bytes that are there, not what git would make of them.
    std::vector<std::string> hash = {"hash-object", "-t", "blob", "--no-filters"};
    if (store == StoreObjects::yes) hash.push_back("-w");
    for (const ChangedFile& file : files) {
        const std::string at = path + "/" + file.name;
        const auto status = status_of(at);
        now.push_back({.name = file.name, .mode = {}, .object = {}});
        if (status && S_ISREG(status->st_mode)) {
            now.back().mode = (status->st_mode & 0100) != 0 ? "100755" : "100644";
            regular.push_back(now.size() - 1);
            regular_paths += quoted_path(at);
        } else if (status && S_ISLNK(status->st_mode)) {
            std::array<char, 4097> target;
            const auto length = readlink(at.c_str(), target.data(), target.size());
            if (length <= 0) return fail(fmt::format("cannot read the link {}", at));
            auto arguments = hash;
            arguments.push_back("--stdin");
            auto object = git.ask(std::move(arguments), std::string(target.data(), static_cast<std::size_t>(length)));
            if (!object) return fail(std::move(object.error()));
            now.back().mode = "120000";
            now.back().object = object->substr(0, object->find('\n'));
        }
    }
    if (regular.empty()) return now;
    hash.push_back("--stdin-paths");
    const auto objects = git.ask(hash, std::move(regular_paths));
    if (!objects) return fail(objects.error());
    const auto lines = lines_of(*objects);
    if (lines.size() != regular.size()) return fail(fmt::format("git hash-object did not answer for all of {}", path));
    for (std::size_t i = 0; i < lines.size(); ++i) now[regular[i]].object = lines[i];
    return now;
}

Result<std::string, std::string> save_staged(const Git& git, const std::string& head) {
    const auto tree = git.run({"write-tree"});
    if (!tree) return fail(tree.error());
    // In the middle of a conflict nothing is staged that could be written; the files themselves are saved.
    if (tree->exit_code != 0) return std::string();
    const std::string staged = tree->out.substr(0, tree->out.find('\n'));
    if (head.empty()) return git.line({"commit-tree", "-m", "interlock: what was staged", staged});
    const auto head_tree = git.object(head + "^{tree}");
    if (!head_tree) return fail(head_tree.error());
    if (*head_tree == staged) return std::string();
    return git.line({"commit-tree", "-m", "interlock: what was staged", "-p", head, staged});
}

Result<std::string, std::string> save_tree(const Git& git, const std::vector<FileNow>& files) {
    // A directory may stand where a file was, or the other way round, so all that is gone goes first.
    std::string gone;
    std::string there;
    for (const FileNow& file : files) {
        // Also what is there: an unfinished merge has several entries of one name.
        gone += fmt::format("0 {}\t{}", std::string(40, '0'), file.name) + '\0';
        if (!file.mode.empty()) there += fmt::format("{} {}\t{}", file.mode, file.object, file.name) + '\0';
    }
    if (!gone.empty()) {
        const auto format = git.line({"rev-parse", "--show-object-format"});
        if (!format) return fail(format.error());
        if (*format == "sha256") {
            gone.clear();
            for (const FileNow& file : files) gone += fmt::format("0 {}\t{}", std::string(64, '0'), file.name) + '\0';
        }
        const auto done = git.ask({"update-index", "--replace", "-z", "--index-info"}, gone + there);
        if (!done) return fail(done.error());
    }
    return git.line({"write-tree"});
}

Result<std::string, std::string> save_commit(const Git& git, const std::string& tree, const SavedWork& saved,
                                             const std::vector<std::string>& tips, const std::string& before) {
    const std::string message = fmt::format(
        "interlock: what run {0} left\n\n"
        "Interlock-Run: {0}\nInterlock-Branch: {1}\nInterlock-Branch-Tip: {2}\nInterlock-Head: {3}\n"
        "Interlock-Head-Ref: {4}\nInterlock-Base: {5}\nInterlock-Staged: {6}\nInterlock-Subdirectory: {7}\n",
        saved.run, saved.branch, saved.branch_tip, saved.head, saved.head_ref, saved.base, saved.staged,
        // A path may contain anything, a line end too.
        to_hex(std::string_view(saved.subdirectory)));
    std::vector<std::string> parents = {saved.head, saved.branch_tip, saved.staged};
    parents.insert(parents.end(), tips.begin(), tips.end());
    // What was saved earlier stays, whatever became of the worktree since: a teardown may have emptied it, and the
    // removal that this belonged to may have been interrupted and begun again.
    parents.push_back(before);
    std::vector<std::string> arguments = {"commit-tree", "-F", "-"};
    std::set<std::string> named;
    for (const std::string& parent : parents) {
        if (!parent.empty() && named.insert(parent).second) arguments.insert(arguments.end(), {"-p", parent});
    }
    arguments.push_back(tree);
    auto commit = git.ask(std::move(arguments), message);
    if (commit && commit->ends_with('\n')) commit->pop_back();
    return commit;
}

Result<void, std::string> read_back(const Git& git, const std::string& commit, const std::string& base,
                                    const std::vector<FileNow>& files) {
    const auto listed = git.ask({"ls-tree", "-r", "-z", "--full-tree", commit});
    if (!listed) return fail(listed.error());
    std::map<std::string, std::string> saved;
    for (const std::string& entry : pieces(*listed, '\0')) {
        const auto tab = entry.find('\t');
        const auto words = pieces(entry.substr(0, tab), ' ');
        if (tab == std::string::npos || words.size() < 3)
            return fail("git ls-tree answered what is not understood: " + entry);
        saved[entry.substr(tab + 1)] = words[0] + " " + words[2];
    }
    for (const FileNow& file : files) {
        const auto found = saved.find(file.name);
        const bool good = file.mode.empty() ? found == saved.end()
                                            : found != saved.end() && found->second == file.mode + " " + file.object;
        if (!good) return fail(fmt::format("{} was not saved as it is", file.name));
    }
    // Everything the commit leads to can be read, down to what the worktree began with.
    std::vector<std::string> arguments = {"rev-list", "--objects", "--quiet", commit};
    if (!base.empty()) arguments.push_back("^" + base);
    if (auto whole = git.ask(std::move(arguments)); !whole) return fail(whole.error());
    return {};
}

std::string from_hex(std::string_view text) {
    std::string bytes;
    for (; text.size() >= 2; text.remove_prefix(2)) {
        unsigned char byte = 0;
        std::from_chars(text.data(), text.data() + 2, byte, 16);
        bytes += static_cast<char>(byte);
    }
    return bytes;
}

struct Difference {
    std::string name;
    std::string mode;  // Of what was saved; empty when that file was not there.
    std::string object;
    std::size_t bytes = 0;
};

Result<std::vector<Difference>, std::string> differences(const Git& git, const std::string& from,
                                                         const std::string& to) {
    const auto listed =
        git.ask({"diff-tree", "-r", "-z", "--no-renames", "--ignore-submodules=none", "--end-of-options", from, to});
    if (!listed) return fail(listed.error());
    std::vector<Difference> found;
    std::string objects;
    const auto parts = pieces(*listed, '\0');
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
        // ":100644 100644 <object> <object> M"
        const auto words = pieces(parts[i], ' ');
        if (words.size() < 5) return fail("git diff-tree answered what is not understood: " + parts[i]);
        const bool gone = words[1] == "000000";
        found.push_back({.name = parts[i + 1], .mode = gone ? "" : words[1], .object = gone ? "" : words[3]});
        if (!gone) objects += words[3] + "\n";
    }
    if (objects.empty()) return found;
    const auto sizes = git.ask({"cat-file", "--batch-check=%(objectsize)"}, std::move(objects));
    if (!sizes) return fail(sizes.error());
    auto size = lines_of(*sizes);
    std::size_t next = 0;
    for (Difference& difference : found) {
        if (difference.mode.empty()) continue;
        const std::string text = next < size.size() ? size[next++] : "";
        const auto end = text.data() + text.size();
        if (text.empty() || std::from_chars(text.data(), end, difference.bytes).ptr != end) {
            return fail(fmt::format("what was saved of {} is missing", difference.name));
        }
    }
    return found;
}

Result<void, std::string> write_files(const Git& git, const std::string& path, std::vector<Difference> files) {
    // One answer of cat-file --batch: "<object> blob <bytes>\n", the bytes, "\n".
    std::string objects;
    std::size_t bytes = 0;
    for (const Difference& file : files) {
        objects += file.object + "\n";
        bytes += file.bytes + 256;
    }
    const auto answer = git.with_output_max(bytes).ask({"cat-file", "--batch"}, std::move(objects));
    if (!answer) return fail(answer.error());
    std::string_view rest = *answer;
    for (const Difference& file : files) {
        const auto head_end = rest.find('\n');
        if (head_end == std::string_view::npos || rest.size() < head_end + 1 + file.bytes + 1) {
            return fail(fmt::format("what was saved of {} cannot be read", file.name));
        }
        using ContentKind = FileContent::Kind;
        const ContentKind kind = file.mode == "120000"   ? ContentKind::link
                                 : file.mode == "100755" ? ContentKind::executable
                                                         : ContentKind::regular;
        const FileContent content{.kind = kind, .bytes = std::string(rest.substr(head_end + 1, file.bytes))};
        rest.remove_prefix(head_end + 1 + file.bytes + 1);
        const auto put = put_file(path, file.name, content);
        if (!put) return fail(put.error());
        if (!*put) return fail(fmt::format("{} is in the way of what was saved", path + "/" + file.name));
    }
    return {};
}

// The text of a commit can be anything: a program that may write the repository's refs can put one there. Its names go
// to git as arguments, so they are names of objects and of branches and nothing else.
bool is_well_formed(const Git& git, const SavedWork& saved) {
    const auto is_ref = [&](const std::string& name) {
        const auto checked = git.run({"check-ref-format", name});
        return name.starts_with(branch_ref("")) && checked && checked->exit_code == 0;
    };
    const std::array objects = {&saved.branch_tip, &saved.head, &saved.staged};
    return is_object_name(saved.base) && is_ref(branch_ref(saved.branch)) &&
           (saved.head_ref.empty() || is_ref(saved.head_ref)) &&
           std::ranges::all_of(objects, [](const std::string* name) { return name->empty() || is_object_name(*name); });
}

// A tree can name anything too. git never writes these names itself: they lead out of the worktree, or make another
// repository of it.
bool stays_inside(const std::string& name) {
    return std::ranges::all_of(pieces(name + "/", '/'), [](std::string part) {
        std::ranges::transform(part, part.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        return !part.empty() && part != "." && part != ".." && part != ".git";
    });
}

}  // namespace

Result<SavedWork, std::string> read_saved_work(const std::string& common_dir, const std::string& run) {
    const Git git = Git::of_repository(common_dir);
    const auto commit = git.object(kept_ref(run) + "^{commit}");
    if (!commit) return fail(commit.error());
    if (commit->empty()) return fail(fmt::format("nothing is kept of run {}: there is no {}", run, kept_ref(run)));
    const auto text = git.ask({"cat-file", "commit", *commit});
    if (!text) return fail(text.error());
    std::map<std::string, std::string> said;
    for (const std::string& line : lines_of(*text)) {
        const auto colon = line.find(": ");
        if (line.starts_with("Interlock-") && colon != std::string::npos)
            said[line.substr(10, colon - 10)] = line.substr(colon + 2);
    }
    SavedWork saved{.commit = *commit,
                    .run = run,
                    .branch = said["Branch"],
                    .branch_tip = said["Branch-Tip"],
                    .head = said["Head"],
                    .head_ref = said["Head-Ref"],
                    .base = said["Base"],
                    .staged = said["Staged"],
                    .subdirectory = from_hex(said["Subdirectory"])};
    if (said["Run"] != run || !is_well_formed(git, saved)) {
        return fail(fmt::format("{} is not what a run left", kept_ref(run)));
    }
    return saved;
}

Result<void, std::string> put_back(const SavedWork& saved, const Registration& registration) {
    const Git git = Git::of_worktree(registration.common_dir, registration.git_dir, registration.path);
    auto files = differences(git, saved.head.empty() ? saved.base : saved.head, saved.commit);
    if (!files) return fail(std::move(files.error()));
    for (const Difference& file : *files) {
        if (!stays_inside(file.name)) return fail(fmt::format("{} is not what a run left", kept_ref(saved.run)));
    }
    for (const Difference& file : *files) {
        if (auto taken = take_file(registration.path, file.name); !taken) return fail(taken.error());
    }
    std::erase_if(*files, [](const Difference& file) { return file.mode.empty(); });
    std::vector<Difference> together;
    std::size_t bytes = 0;
    for (Difference& file : *files) {
        if (!together.empty() && bytes + file.bytes > read_at_once_max) {
            if (auto put = write_files(git, registration.path, std::exchange(together, {})); !put) return put;
            bytes = 0;
        }
        bytes += file.bytes;
        together.push_back(std::move(file));
    }
    if (!together.empty()) {
        if (auto put = write_files(git, registration.path, std::move(together)); !put) return put;
    }

    if (!saved.staged.empty()) {
        if (auto read = git.ask({"read-tree", "--end-of-options", saved.staged}); !read) return fail(read.error());
    }
    // Exit code 1 says that files differ from the index, which is what they shall do.
    if (auto refreshed = git.run({"update-index", "-q", "--refresh"}); !refreshed) return fail(refreshed.error());
    return {};
}

}  // namespace interlock::supervisor
