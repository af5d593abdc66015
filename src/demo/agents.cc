#include "demo/agents.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <boost/asio/co_spawn.hpp>
#include <boost/describe/enum_to_string.hpp>

#include "supervisor/place.h"

namespace interlock::demo {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

constexpr std::array place_names{"api", "web", "data", "docs", "infra"};
constexpr const char* linked_place = "web";
constexpr const char* link_name = "www";
constexpr std::int64_t spent_after_percent = 85;     // Of the time.
constexpr std::int64_t calls_guessed_a_second = 15;  // Of each agent.
constexpr int wants_place_percent = 35;
constexpr int waits_in_line_percent = 30;
constexpr std::int64_t line_joined_max = 3;  // Nobody joins a longer one.
constexpr std::size_t odd_named_max = 3;

int below(std::mt19937_64& random, int end) { return static_cast<int>(random() % static_cast<std::uint64_t>(end)); }

// The lock that Interlock knows nothing of. Each has an open file of its own, so they exclude each other although all
// agents are one process.
class DirectoryLock {
 public:
    explicit DirectoryLock(const std::string& directory)
        : fd_(open((directory + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
          taken_(fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0) {}
    ~DirectoryLock() { release(); }
    DirectoryLock(const DirectoryLock&) = delete;
    DirectoryLock& operator=(const DirectoryLock&) = delete;

    bool taken() const { return taken_; }
    void release() {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
    }

 private:
    int fd_;
    bool taken_;
};

template <class Status>
std::string name_of(Status status) {
    return boost::describe::enum_to_string(status, "unknown");
}

}  // namespace

Agents::Agents(asio::io_context& io, Link& link, Options options)
    : io_(io), link_(link), options_(std::move(options)), session_(link.fresh_id()) {}

// ---- before -------------------------------------------------------------------------------------------------------

Result<void, std::string> Agents::make_places() {
    const std::string inside = options_.directory + "/workplaces";
    const std::string host = supervisor::this_host();
    std::error_code error;
    fs::create_directory(inside, error);
    const auto add_door = [&](const std::string& name, std::size_t book) -> Result<void, std::string> {
        const std::string path = inside + "/" + name;
        auto place = supervisor::resolve_workspace(path, core::ClaimMode::write, host);
        if (!place) return fail(place.error().detail);
        doors_.push_back({path, std::move(*place), book});
        return {};
    };
    for (const std::string name : place_names) {
        if (!error) fs::create_directory(inside + "/" + name, error);
        if (error) return fail(fmt::format("cannot make '{}/{}': {}", inside, name, error.message()));
        books_.places.push_back({.name = name});
        if (auto added = add_door(name, books_.places.size() - 1); !added) return added;
    }
    // One of them has a second name. It is still one place.
    fs::create_directory_symlink(linked_place, inside + "/" + link_name, error);
    if (error) return fail(fmt::format("cannot make '{}/{}': {}", inside, link_name, error.message()));
    const auto linked = std::ranges::find(books_.places, linked_place, &PlaceBook::name);
    linked->other_name = link_name;
    return add_door(link_name, static_cast<std::size_t>(linked - books_.places.begin()));
}

asio::awaitable<bool> Agents::prepare() {
    core::PutBudget budget;
    budget.name = budget_name;
    budget.window = WindowKind::total;
    budget.limit_units = budget_limit.nanos();
    const core::Reply budget_made = co_await link_.ask(budget);
    const core::Reply session_made = co_await link_.ask(
        core::CreateSession{.session = session_, .agent = {}, .title = "what everybody says", .metadata = {}});
    const bool has_budget = std::get<core::BudgetReply>(budget_made).status == core::BudgetStatus::done;
    const bool has_session = std::get<core::SessionReply>(session_made).status == core::SessionStatus::done;
    co_return (has_budget && has_session);
}

void Agents::begin() {
    began_ = Steady::now();
    for (int number = 1; number <= options_.count; ++number) {
        ++working_;
        asio::co_spawn(io_, live(number), rethrow);
    }
}

// ---- the life of an agent -----------------------------------------------------------------------------------------

asio::awaitable<void> Agents::live(int number) {
    DemoAgent agent{.number = number,
                    .random = std::mt19937_64(options_.seed * 1'000'003 + static_cast<unsigned>(number))};
    core::PutAgent put;
    put.name = agent_name(number);
    const core::Reply made = co_await link_.ask(put);
    if (const auto status = std::get<core::AgentReply>(made).status; status != core::AgentStatus::done) {
        odd("An agent could not be made: " + name_of(status));
    }
    while (!stopping_) {
        if (below(agent.random, 100) < wants_place_percent) {
            co_await work_somewhere(agent);
        } else {
            co_await work_anywhere(agent);
        }
        co_await think(agent, 20);
    }
    --working_;
}

asio::awaitable<void> Agents::work_somewhere(DemoAgent& agent) {
    const Door& door = doors_[static_cast<std::size_t>(below(agent.random, static_cast<int>(doors_.size())))];
    PlaceBook& place = books_.places[door.book];
    core::AdmitRun admit;
    admit.run = core::RunId(link_.fresh_id());
    admit.who.agent = agent_name(agent.number);
    admit.places = {door.place};
    const bool waits = below(agent.random, 100) < waits_in_line_percent && place.in_line < line_joined_max;
    admit.on_conflict = waits ? core::OnConflict::queue : core::OnConflict::refuse;
    const core::Reply answer = co_await link_.ask(admit);
    const auto& reply = std::get<core::AdmitReply>(answer);
    core::Fence fence = reply.fence;
    switch (reply.status) {
        case core::AdmitStatus::admitted:
            break;
        case core::AdmitStatus::queued:
            fence = co_await stand_in_line(admit.run, place);
            if (fence.value == 0) co_return;
            break;
        case core::AdmitStatus::workspace_busy:
            ++place.turned_away;
            co_return;
        case core::AdmitStatus::budget_exceeded:
            ++books_.runs_refused;
            co_await think(agent, 60);
            co_return;
        default:
            odd("A run was refused: " + name_of(reply.status) + ", " + reply.detail);
            co_return;
    }
    co_await work_in(agent, door, {admit.run, fence});
}

// The fence, once the place is ours. Empty: given up.
asio::awaitable<core::Fence> Agents::stand_in_line(core::RunId run, PlaceBook& place) {
    ++place.in_line;
    core::Fence fence = co_await link_.granted(run);
    if (fence.value == 0) {
        const core::Reply answer =
            co_await link_.ask(core::CancelRun{.run = run, .fence = {}, .reason = "the demo ends", .charge = {}});
        // Our turn may have come in the same moment. Then the place is ours, and has to be left in good order.
        const auto status = std::get<core::RunReply>(answer).status;
        while (status == core::RunStatus::stop_requested && fence.value == 0) fence = co_await link_.granted(run);
    }
    --place.in_line;
    co_return fence;
}

asio::awaitable<void> Agents::work_in(DemoAgent& agent, const Door& door, DemoJob job) {
    DirectoryLock lock(door.path);
    if (!lock.taken()) ++books_.collisions;
    PlaceBook& place = books_.places[door.book];
    ++place.runs;
    place.worker = agent_name(agent.number);

    const core::Reply started = co_await link_.ask(core::StartRun{job.run, job.fence});
    if (const auto& reply = std::get<core::RunReply>(started); reply.status != core::RunStatus::done) {
        odd("A run could not start: " + name_of(reply.status) + ", " + reply.detail);
    }
    const int calls = 1 + below(agent.random, 3);
    for (int i = 0; i < calls && !stopping_; ++i) co_await pay_with_hold(agent, job);
    co_await add_turn(agent, job, 2);

    // Nothing is done in the directory any more. Only then others may hear that it is free.
    place.worker.clear();
    lock.release();
    const core::Reply finished = co_await link_.ask(core::FinishRun{
        .run = job.run, .fence = job.fence, .outcome = core::RunState::succeeded, .reason = "done", .charge = {}});
    if (const auto& reply = std::get<core::RunReply>(finished); reply.status != core::RunStatus::done) {
        odd("A run could not finish: " + name_of(reply.status) + ", " + reply.detail);
    }
}

asio::awaitable<void> Agents::work_anywhere(DemoAgent& agent) {
    const Money cost = cost_of_call(agent);
    co_await pay(agent, cost);
    co_await think(agent, 8);
    co_await add_turn(agent, {}, 1);
}

// ---- money --------------------------------------------------------------------------------------------------------

asio::awaitable<void> Agents::pay_with_hold(DemoAgent& agent, DemoJob job) {
    const Money cost = cost_of_call(agent);
    core::Reserve reserve;
    reserve.hold = core::HoldId(link_.fresh_id());
    reserve.who.run = job.run;
    reserve.fence = job.fence;
    reserve.bound.usd = cost.nanos() + cost.nanos() / 4;  // What it can come to at most is known; what it will, is not.
    reserve.dispatched = true;
    const core::Reply answer = co_await link_.ask(reserve);
    const auto& reply = std::get<core::ReserveReply>(answer);
    if (reply.status == core::ReserveStatus::budget_exceeded) {
        ++books_.calls_refused;
        co_await take_the_rest(agent, reply.budget);
        co_return;
    }
    if (reply.status != core::ReserveStatus::held) {
        odd("A hold was refused: " + name_of(reply.status) + ", " + reply.detail);
        co_return;
    }
    books_.held += reserve.bound.usd;
    co_await think(agent, 10);  // The model answers.
    core::SettleHold settle;
    settle.hold = reserve.hold;
    settle.cost = cost;
    const core::Reply settled = co_await link_.ask(settle);
    books_.held -= reserve.bound.usd;
    if (const auto& done = std::get<core::SettleReply>(settled); done.status != core::HoldStatus::done) {
        odd("A hold could not be settled: " + name_of(done.status) + ", " + done.detail);
        co_return;
    }
    books_.spent += cost.nanos();
    ++books_.calls_paid;
}

asio::awaitable<void> Agents::pay(DemoAgent& agent, Money cost) {
    core::Charge charge;
    charge.who.agent = agent_name(agent.number);
    charge.cost = cost;
    const core::Reply answer = co_await link_.ask(charge);
    const auto& reply = std::get<core::ChargeReply>(answer);
    if (reply.status == core::ChargeStatus::charged) {
        books_.spent += cost.nanos();
        ++books_.calls_paid;
    } else if (reply.status == core::ChargeStatus::budget_exceeded) {
        ++books_.calls_refused;
        co_await take_the_rest(agent, reply.budget);
    } else {
        odd("A charge was refused: " + name_of(reply.status) + ", " + reply.detail);
    }
}

// A smaller call that costs precisely what is left. Many try that at once, and only one can have it.
asio::awaitable<void> Agents::take_the_rest(DemoAgent& agent, const std::optional<core::BudgetRefusal>& refusal) {
    const std::int64_t left = refusal ? refusal->free : 0;
    if (left <= 0 || stopping_) co_return;
    core::Charge charge;
    charge.who.agent = agent_name(agent.number);
    charge.cost = Money::nanos(left);
    const core::Reply answer = co_await link_.ask(charge);
    if (std::get<core::ChargeReply>(answer).status == core::ChargeStatus::charged) {
        books_.spent += left;
        ++books_.calls_paid;
    } else {
        ++books_.calls_refused;
    }
}

// Such that the money lasts for most of the time, on a fast machine and on a slow one.
Money Agents::cost_of_call(DemoAgent& agent) const {
    const auto in_ms = [](auto time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time).count(); };
    const std::int64_t time = in_ms(options_.time);
    const std::int64_t elapsed = in_ms(Steady::now() - began_);
    const std::int64_t time_left = std::max<std::int64_t>(200, time * spent_after_percent / 100 - elapsed);
    // What is known of the rate, and a guess that counts for half a second until there is more.
    const std::int64_t calls = books_.calls_paid + options_.count * calls_guessed_a_second / 2;
    const auto calls_in = [&](std::int64_t ms) { return std::max<std::int64_t>(1, calls * ms / (elapsed + 500)); };
    // Not ever smaller than half of the mean: the budget shall run out, not be approached.
    const std::int64_t least = budget_limit.nanos() / 2 / calls_in(time);
    const std::int64_t mean = std::max(least, (budget_limit.nanos() - books_.spent) / calls_in(time_left));
    const std::int64_t drawn = mean / 100 * (20 + below(agent.random, 161));
    return Money::nanos(std::clamp<std::int64_t>(drawn, 1, budget_limit.nanos() / 100));
}

// ---- the session --------------------------------------------------------------------------------------------------

asio::awaitable<void> Agents::add_turn(DemoAgent& agent, DemoJob job, int parts) {
    const int turn = ++agent.turns;
    core::Append append;
    append.session = session_;
    append.run = job.run;
    append.fence = job.fence;
    for (int part = 0; part < parts; ++part) {
        core::NewMessage message;
        message.id = core::MessageId(link_.fresh_id());
        message.role = part % 2 == 0 ? "user" : "assistant";
        message.content = DemoMessage{agent.number, turn, part}.text();
        append.messages.push_back(std::move(message));
    }
    const core::Reply answer = co_await link_.ask(append);
    const auto& reply = std::get<core::AppendReply>(answer);
    if (reply.status != core::AppendStatus::appended || reply.last_seq - reply.first_seq + 1 != parts) {
        odd("A turn was refused: " + name_of(reply.status) + ", " + reply.detail);
        co_return;
    }
    const auto end = static_cast<std::size_t>(reply.last_seq) + 1;
    if (books_.messages.size() < end) books_.messages.resize(end);
    for (int part = 0; part < parts; ++part) {
        books_.messages[static_cast<std::size_t>(reply.first_seq + part)] = {agent.number, turn, part};
    }
    books_.messages_told += parts;
}

asio::awaitable<void> Agents::think(DemoAgent& agent, int milliseconds_max) {
    if (stopping_) co_return;
    asio::steady_timer timer(io_, std::chrono::milliseconds(1 + below(agent.random, milliseconds_max)));
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

void Agents::odd(std::string what) {
    if (books_.odd.size() < odd_named_max) books_.odd.push_back(std::move(what) + ".");
}

}  // namespace interlock::demo
