#include "server/demo_worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "engine/embedded.h"
#include "server/demo_wire.h"
#include "store/sqlite_store.h"

namespace interlock::server::demo {
namespace {

constexpr int agents_fd = STDIN_FILENO;
constexpr std::chrono::milliseconds look_every{20};

// What is to be said to the agents, and the thread that says it: the engine's thread must not wait for a socket.
class Mouth {
 public:
    Mouth() : thread_([this] { run(); }) {}
    ~Mouth() {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        more_.notify_one();
        thread_.join();
    }

    void say(const Message& message) {
        const std::string bytes = encode(message);
        {
            const std::lock_guard lock(mutex_);
            append_frame(unsaid_, bytes);
        }
        more_.notify_one();
    }

 private:
    void run() {
        std::string saying;
        while (true) {
            {
                std::unique_lock lock(mutex_);
                more_.wait(lock, [this] { return closing_ || !unsaid_.empty(); });
                if (unsaid_.empty()) return;
                saying.clear();
                saying.swap(unsaid_);
            }
            if (!send_all(saying)) return;
        }
    }

    static bool send_all(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t sent = send(agents_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR) continue;
            if (sent <= 0) return false;  // Nobody listens any more. Whoever reads finds that out too.
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    std::mutex mutex_;
    std::condition_variable more_;
    std::string unsaid_;
    bool closing_ = false;
    std::thread thread_;
};

// Counts the commits that reach the disk, and is the real store otherwise.
class CountedStore final : public store::Store {
 public:
    CountedStore(store::SqliteStore::Options options, std::atomic<std::uint64_t>& commits)
        : store_(std::move(options)), commits_(commits) {}

    Result<void, store::OpenError> open() override { return store_.open(); }
    void close() override { store_.close(); }
    bool load(core::OrgId org, core::ColdRow& row) override { return store_.load(org, row); }
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override {
        return store_.sum(org, scope, span);
    }
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override { return store_.open_sessions(org); }
    Result<void, store::ReadError> load_live(const store::OnLiveRow& on_row) override {
        return store_.load_live(on_row);
    }
    Result<Id, store::ReadError> newest_key() override { return store_.newest_key(); }
    Result<void, store::CommitError> commit(const store::WriteSet& writes) override {
        auto committed = store_.commit(writes);
        if (committed) commits_ += 1;
        return committed;
    }
    bool failed() const override { return store_.failed(); }
    Result<std::unique_ptr<store::Snapshot>, store::ReadError> snapshot() override { return store_.snapshot(); }

 private:
    store::SqliteStore store_;
    std::atomic<std::uint64_t>& commits_;
};

// Tells the agents now and then what nobody is answered: who has come to the head of a line, and how many commits there
// were. The runs that were granted their place and have not started are as few as the places.
class Lookout {
 public:
    Lookout(store::Store& store, Mouth& mouth, const std::atomic<std::uint64_t>& commits)
        : store_(store), mouth_(mouth), commits_(commits), thread_([this] { run(); }) {}
    ~Lookout() {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        end_.notify_one();
        thread_.join();
    }

 private:
    void run() {
        std::unique_lock lock(mutex_);
        while (!end_.wait_for(lock, look_every, [this] { return closing_; })) {
            mouth_.say(Commits{commits_});
            const auto snapshot = store_.snapshot();
            if (!snapshot) continue;
            const auto granted = [this](const std::vector<store::Value>& row) {
                const Id run = id_in_column(std::get<std::string>(row[0]));
                mouth_.say(Granted{core::RunId(run), core::Fence(std::get<std::int64_t>(row[1]))});
            };
            // A look that fails is followed by the next one.
            (void)(*snapshot)->query(
                "select id, fence from runs where org = 1 and state in ('queued', 'starting', 'running', 'paused') "
                "and state = 'starting'",
                granted);
        }
    }

    // Sixteen bytes, high end first.
    static Id id_in_column(std::string_view bytes) {
        Id id;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            std::uint64_t& half = i < 8 ? id.high : id.low;
            half = half << 8 | static_cast<unsigned char>(bytes[i]);
        }
        return id;
    }

    store::Store& store_;
    Mouth& mouth_;
    const std::atomic<std::uint64_t>& commits_;
    std::mutex mutex_;
    std::condition_variable end_;
    bool closing_ = false;
    std::thread thread_;
};

void answer_questions(engine::Embedded& interlock, Mouth& mouth) {
    Frames frames;
    char bytes[65536];
    while (true) {
        const ssize_t count = recv(agents_fd, bytes, sizeof bytes, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        frames.add({bytes, static_cast<std::size_t>(count)});
        while (const auto frame = frames.next()) {
            const auto question = decode<Question>(*frame);
            auto body = question ? decode<core::CommandBody>(question->body) : std::nullopt;
            if (!body) return;  // Not one of ours.
            const auto on_answer = [&mouth, number = question->number](const engine::SubmitResult& answer) {
                Heard heard{.number = number, .error = {}, .reply = {}};
                if (answer) {
                    heard.repeated = answer->repeated;
                    heard.reply = encode(answer->reply);
                } else {
                    heard.error = answer.error();
                }
                mouth.say(std::move(heard));
            };
            interlock.submit({.org = {}, .key = question->key, .body = std::move(*body)}, on_answer);
        }
    }
}

}  // namespace

int worker(const std::string& directory) {
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(agents_fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
        fmt::print(stderr, "error: this is a part of 'interlock demo' and is started by it\n");
        return 2;
    }
    std::atomic<std::uint64_t> commits = 0;
    Mouth mouth;  // Outlives the engine, which answers everybody before it ends.
    store::SqliteStore::Options where;
    where.directory = directory;
    engine::Embedded::Options options;
    options.directory = directory;
    const auto interlock =
        engine::Embedded::open_on(std::make_unique<CountedStore>(where, commits), std::move(options));
    if (!interlock) {
        mouth.say(NotOpened{interlock.error().detail});
        return 1;
    }
    mouth.say(Opened{});
    const Lookout lookout((*interlock)->store(), mouth, commits);
    answer_questions(**interlock, mouth);
    return 0;
}

}  // namespace interlock::server::demo
