#include "crash/kill_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "base/codec.h"
#include "core/reply.h"
#include "crash/examples.h"
#include "crash/kill_worker.h"
#include "crash/random.h"
#include "engine/embedded.h"
#include "store/sqlite_store.h"
#include "verify/verify.h"

extern char** environ;

namespace interlock::crash {

namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned fresh_start_every = 10;  // Kills. A store that only grows would make each check slower.
constexpr unsigned session_only_every = 4;
constexpr std::size_t asked_again_max = 5'000;  // Of the answers to earlier workers, each time.

// A started program and what it writes.
class Process {
 public:
    explicit Process(std::vector<std::string> words) {
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) != 0) return;
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        if (posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) pid_ = -1;
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        from_ = ends[0];
    }
    ~Process() {
        kill_now();
        if (from_ >= 0) close(from_);
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    bool started() const { return pid_ > 0; }

    // Reads until the moment, or the end of what it writes.
    void read_until(Clock::time_point moment) {
        while (!ended_) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(moment - Clock::now()).count();
            if (left <= 0) return;
            pollfd waiting{.fd = from_, .events = POLLIN, .revents = 0};
            if (poll(&waiting, 1, static_cast<int>(left)) > 0) read_some();
        }
    }
    void read_to_end() {
        while (!ended_) read_some();
    }
    void kill_now() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        wait_for_end();
    }
    void wait_for_end() {
        if (pid_ <= 0) return;
        waitpid(pid_, &status_, 0);
        pid_ = -1;
    }
    bool was_killed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL; }
    const std::string& written() const { return written_; }

 private:
    void read_some() {
        char bytes[65536];
        const ssize_t count = read(from_, bytes, sizeof bytes);
        if (count <= 0) {
            ended_ = true;
        } else {
            written_.append(bytes, static_cast<std::size_t>(count));
        }
    }

    pid_t pid_ = -1;
    int from_ = -1;
    int status_ = 0;
    bool ended_ = false;
    std::string written_;
};

class Killer {
 public:
    explicit Killer(const KillOptions& options) : options_(options), random_(options.seed) {}

    KillTally run() {
        for (unsigned i = 0; i < options_.kills && tally_.violations == 0; ++i) {
            if (i % fresh_start_every == 0) start_anew();
            if (auto wrong = kill_once(i); !wrong.empty()) {
                ++tally_.violations;
                tally_.examples.push_back(fmt::format("kill {} of seed {}: {} (the files are in {})", i + 1,
                                                      options_.seed, wrong, options_.directory));
            }
            if (options_.progress) options_.progress(i + 1);
        }
        if (tally_.acknowledged == 0 && tally_.violations == 0) {
            ++tally_.violations;
            tally_.examples.push_back("no worker was ever answered, so nothing was checked");
        }
        return tally_;
    }

 private:
    void start_anew() {
        std::filesystem::remove_all(options_.directory);
        std::filesystem::create_directories(options_.directory);
        answers_.clear();
    }

    std::string kill_once(unsigned number) {
        const bool session_only = number % session_only_every == session_only_every - 1;
        std::size_t known = answers_.size();
        if (auto wrong = let_work_and_kill(number, session_only); !wrong.empty()) return wrong;
        ++tally_.kills;
        if (session_only) ++tally_.session_kills;
        tally_.acknowledged += answers_.size() - known;

        if (auto wrong = check_dead_files(); !wrong.empty()) return wrong;
        if (auto wrong = ask_again(known); !wrong.empty()) return wrong;
        return "";
    }

    std::string let_work_and_kill(unsigned number, bool session_only) {
        std::vector<std::string> words = {options_.program,           "--worker",  options_.directory,        "--epoch",
                                          std::to_string(number + 1), "--clients", session_only ? "64" : "16"};
        if (session_only) words.push_back("--session-only");
        if (options_.at_system_calls) {
            words.insert(words.end(), {"--commands", "40"});
            words.insert(words.begin(),
                         {"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,fdatasync", "-e",
                          fmt::format("inject=pwrite64,fdatasync:signal=KILL:when={}", 1 + random_.below(400))});
        }
        Process worker(words);
        if (!worker.started()) return "the worker cannot be started";
        if (options_.at_system_calls) {
            worker.read_until(Clock::now() + std::chrono::seconds(60));
            worker.wait_for_end();
        } else {
            worker.read_until(Clock::now() + std::chrono::milliseconds(20 + random_.below(options_.life_ms_max)));
            worker.kill_now();
        }
        worker.read_to_end();
        if (!worker.was_killed() && !options_.at_system_calls) return "the worker ended by itself";

        std::string_view rest = worker.written();
        for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
            auto answered = from_line(rest.substr(0, end));
            if (!answered) return "the worker wrote what cannot be read: " + std::string(rest.substr(0, end));
            answers_.push_back(std::move(*answered));
            rest.remove_prefix(end + 1);
        }
        forge(number + 1);
        return "";
    }

    void forge(std::uint64_t epoch) {
        constexpr unsigned nobody = 9'999;
        if (options_.forged == Forged::charge) {
            answers_.push_back(
                {{.epoch = epoch, .client = nobody, .number = 0}, encode(core::Reply(core::ChargeReply{}))});
        }
        if (options_.forged == Forged::turn) {
            answers_.push_back(
                {{.epoch = epoch, .client = nobody, .number = 4}, encode(core::Reply(core::AppendReply{}))});
        }
    }

    // Nobody has opened them since the kill.
    std::string check_dead_files() {
        if (!std::filesystem::exists(options_.directory + "/interlock.db")) {
            return answers_.empty() ? "" : "the file is gone";
        }
        auto snapshot = store::open_snapshot(options_.directory);
        // Killed before its first file was whole, it has promised nothing yet.
        if (!snapshot) return answers_.empty() ? "" : "the files cannot be read: " + snapshot.error().detail;
        if (auto wrong = verified(**snapshot); !wrong.empty()) return wrong;
        return check_messages(**snapshot);
    }

    static std::string verified(store::Snapshot& snapshot) {
        const auto report = verify::verify(snapshot, {});
        if (!report) return "verify could not read: " + report.error().detail;
        for (const verify::PromiseReport& promise : report->promises) {
            if (promise.violations == 0) continue;
            return fmt::format(
                "{} {}: {} violations, first {}", promise.id, promise.title, promise.violations,
                promise.examples.empty() ? "" : promise.examples[0].row + " " + promise.examples[0].what);
        }
        return "";
    }

    std::string check_messages(store::Snapshot& snapshot) {
        std::vector<std::string> contents;
        std::string wrong;
        const auto read =
            snapshot.query("select seq, content from messages order by seq", [&](const std::vector<store::Value>& row) {
                const auto seq = std::get<std::int64_t>(row[0]);
                if (seq != static_cast<std::int64_t>(contents.size()) && wrong.empty()) {
                    wrong = fmt::format("message {} comes where {} should", seq, contents.size());
                }
                contents.push_back(std::get<std::string>(row[1]));
            });
        if (!read) return read.error().detail;
        if (!wrong.empty()) return wrong;
        tally_.messages = std::max<std::uint64_t>(tally_.messages, contents.size());

        for (const Answered& answered : answers_) {
            const auto reply = decode<core::Reply>(answered.reply);
            const auto* appended = reply ? std::get_if<core::AppendReply>(&*reply) : nullptr;
            if (appended == nullptr) continue;
            for (std::int64_t seq = appended->first_seq; seq <= appended->last_seq; ++seq) {
                const auto expected =
                    content_of(answered.question, static_cast<std::size_t>(seq - appended->first_seq));
                if (static_cast<std::size_t>(seq) >= contents.size()) return "lost: message " + expected;
                if (contents[static_cast<std::size_t>(seq)] != expected) {
                    return fmt::format("message {} says {}, but {} was acknowledged there", seq,
                                       contents[static_cast<std::size_t>(seq)], expected);
                }
            }
        }
        std::ranges::sort(contents);
        const auto twice = std::ranges::adjacent_find(contents);
        return twice == contents.end() ? "" : "twice: message " + *twice;
    }

    // Everything since `known`, and some of what was there before.
    std::string ask_again(std::size_t known) {
        // Declared before the engine, which may still answer while it is closed.
        std::mutex mutex;
        std::condition_variable some_heard;
        std::size_t heard = 0;
        std::string wrong;
        auto interlock = engine::Embedded::open({.directory = options_.directory, .engine = {}});
        if (!interlock) return "it does not open: " + interlock.error().detail;

        std::vector<const Answered*> asked;
        for (std::size_t i = known; i < answers_.size(); ++i) asked.push_back(&answers_[i]);
        for (std::size_t i = 0; i < std::min(known, asked_again_max); ++i) {
            asked.push_back(&answers_[random_.below(known)]);
        }
        std::vector<engine::Submission> submissions;
        for (const Answered* answered : asked) {
            submissions.push_back({.command = *command_of(answered->question),
                                   .on_answer = [&, answered](const engine::SubmitResult& answer) {
                                       const std::lock_guard lock(mutex);
                                       if (!(answer && answer->repeated && encode(answer->reply) == answered->reply)) {
                                           wrong = fmt::format("lost: {} (asked again, it was {})",
                                                               content_of(answered->question, 0),
                                                               !answer            ? "not answered"
                                                               : answer->repeated ? "answered otherwise"
                                                                                  : "carried out");
                                       }
                                       ++heard;
                                       some_heard.notify_one();
                                   }});
        }
        // In portions that the queue has room for.
        for (std::size_t i = 0; i < submissions.size(); i += 1'000) {
            const auto begin = submissions.begin() + static_cast<std::ptrdiff_t>(i);
            const auto end = submissions.begin() + static_cast<std::ptrdiff_t>(std::min(i + 1'000, submissions.size()));
            (*interlock)->submit(std::vector(std::make_move_iterator(begin), std::make_move_iterator(end)));
            std::unique_lock lock(mutex);
            const auto sent = static_cast<std::size_t>(end - submissions.begin());
            if (!some_heard.wait_for(lock, std::chrono::seconds(30), [&] { return heard >= sent; })) {
                return "asked again, it does not answer";
            }
        }
        tally_.asked_again += asked.size();
        if (!wrong.empty()) return wrong;
        auto snapshot = (*interlock)->store().snapshot();
        if (!snapshot) return snapshot.error().detail;
        if (auto found = verified(**snapshot); !found.empty()) return "opened again: " + found;
        return "";
    }

    const KillOptions options_;
    Random random_;
    KillTally tally_;
    std::vector<Answered> answers_;  // Since the last fresh start.
};

}  // namespace

KillTally run_kills(const KillOptions& options) { return Killer(options).run(); }

bool has_strace() {
    for (const char* place : {"/usr/bin/strace", "/usr/local/bin/strace"}) {
        if (access(place, X_OK) == 0) return true;
    }
    return false;
}

void KillTally::add(const KillTally& other) {
    kills += other.kills;
    session_kills += other.session_kills;
    acknowledged += other.acknowledged;
    asked_again += other.asked_again;
    messages = std::max(messages, other.messages);
    violations += other.violations;
    for (const std::string& example : other.examples) {
        if (examples.size() < examples_max) examples.push_back(example);
    }
}

}  // namespace interlock::crash
