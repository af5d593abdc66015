#include "crash/kill_worker.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/codec.h"
#include "crash/kill_run.h"
#include "crash/random.h"
#include "crash/workload.h"
#include "engine/embedded.h"

namespace interlock::crash {

namespace {

constexpr std::size_t hot_agents = 4;
const Instant day_of_keys = from_micros(1'780'000'000'000'000);

core::Command made(Id key, core::CommandBody body) {
    const std::uint64_t fingerprint = core::fingerprint_of(body);
    return {.org = engine::Embedded::default_org,
            .key = core::CommandKey(key),
            .body = std::move(body),
            .fingerprint = fingerprint};
}

// Grows with epoch and number, and differs for every question.
Id key_of(const Question& q, std::uint64_t what) {
    const Instant at = day_of_keys + std::chrono::hours(q.epoch) + std::chrono::milliseconds(q.number);
    return time_ordered_id(at, what,
                           q.epoch << 40 | static_cast<std::uint64_t>(q.client) << 24 | (q.number & 0xFFFFFF));
}

std::string worker_name(std::size_t number) { return "worker-" + std::to_string(number % hot_agents); }

void ask_for_ever(engine::Embedded& interlock, const WorkerOptions& options, unsigned client) {
    std::int64_t fence = 0;
    for (std::uint64_t n = 0; options.commands_max == 0 || n < options.commands_max; ++n) {
        const Question question{options.epoch, client, n, fence, options.session_only};
        fence = 0;
        const auto command = command_of(question);
        if (!command) continue;
        const auto answer = interlock.ask(*command);
        if (!answer) continue;
        if (const auto* admitted = std::get_if<core::AdmitReply>(&answer->reply)) {
            if (admitted->status == core::AdmitStatus::admitted) fence = admitted->fence.value;
        }
        if (!says_done(answer->reply)) continue;
        // Shorter than PIPE_BUF, so that lines of several threads never mix.
        const std::string line = to_line({question, encode(answer->reply)});
        if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return;
    }
}

}  // namespace

int work_until_killed(const WorkerOptions& options) {
    auto interlock = engine::Embedded::open({.directory = options.directory, .engine = {}});
    if (!interlock) {
        fmt::print(stderr, "the worker cannot open its data: {}\n", interlock.error().detail);
        return 1;
    }
    for (core::Command& command : preparations()) {
        if (const auto answer = (*interlock)->ask(std::move(command)); !answer) return 1;
    }
    std::vector<std::thread> clients;
    for (unsigned i = 0; i < options.clients; ++i) {
        clients.emplace_back([&, i] { ask_for_ever(**interlock, options, i); });
    }
    for (std::thread& client : clients) client.join();
    return 0;
}

core::SessionId shared_session() { return core::SessionId(id_from_hash("the session everybody writes to")); }

std::vector<core::Command> preparations() {
    std::vector<core::Command> commands;
    const auto add = [&](std::string_view name, core::CommandBody body) {
        commands.push_back(made(id_from_hash(name), std::move(body)));
    };
    for (std::size_t i = 0; i < hot_agents; ++i) {
        add(worker_name(i),
            core::PutAgent{.name = worker_name(i), .command = {"work"}, .max_concurrent_runs = 100, .tags = {}});
    }
    add("budget", core::PutBudget{.name = "everything",
                                  .scope = {},
                                  .window = WindowKind::month,
                                  .limit_units = Money::dollars(1'000'000).nanos(),
                                  .warn = {50}});
    add("session",
        core::CreateSession{.session = shared_session(), .agent = worker_name(0), .title = "", .metadata = ""});
    return commands;
}

std::optional<core::Command> command_of(const Question& q) {
    Random random(q.epoch * 1'000'003 + q.client * 7'919 + q.number);
    const std::uint64_t kind = q.session_only ? 4 : q.number % 8;
    if (kind < 4) {
        core::Charge charge;
        charge.who.agent = worker_name(random.next());
        charge.who.provider = "maker";
        charge.who.model = "small";
        if (random.percent(20)) charge.who.session = shared_session();
        charge.cost = Money::nanos(static_cast<std::int64_t>(1 + random.below(1'000'000)));
        return made(key_of(q, 0), charge);
    }
    if (kind < 6) {
        core::Append append;
        append.session = shared_session();
        const std::size_t messages = 1 + random.below(3);
        for (std::size_t i = 0; i < messages; ++i) {
            append.messages.push_back(
                {.id = core::MessageId(key_of(q, 1 + i)), .role = "user", .content = content_of(q, i), .metadata = ""});
        }
        return made(key_of(q, 0), append);
    }
    if (kind == 6) {
        core::AdmitRun admit;
        admit.run = core::RunId(key_of(q, 1));
        admit.who.agent = worker_name(random.next());
        admit.node = "node";
        const std::uint64_t place = random.below(12);
        admit.places = {{.kind = core::ClaimKind::workspace,
                         .host = "host",
                         .path = fmt::format("/srv/{}", place),
                         .chain = {fmt::format("1:{}", 100 + place), "1:2"},
                         .mode = core::ClaimMode::write}};
        admit.lease_s = 1;  // What the dead left behind is soon free again.
        return made(key_of(q, 0), admit);
    }
    if (q.fence == 0) return std::nullopt;
    Question admission = q;
    --admission.number;
    return made(key_of(q, 0),
                core::FinishRun{
                    .run = core::RunId(key_of(admission, 1)),
                    .fence = core::Fence(q.fence),
                    .outcome = core::RunState::succeeded,
                    .reason = "",
                    .charge = core::FinalCharge{
                        .provider = "maker", .model = "small", .cost = Money::nanos(777), .usage = {}, .price = ""}});
}

std::string content_of(const Question& q, std::size_t message) {
    return fmt::format("{}/{}/{}/{}", q.epoch, q.client, q.number, message);
}

std::string to_line(const Answered& answered) {
    const Question& q = answered.question;
    std::string line = fmt::format("{} {} {} {} {} ", q.epoch, q.client, q.number, q.fence, q.session_only ? 1 : 0);
    for (const char byte : answered.reply) line += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return line + "\n";
}

std::optional<Answered> from_line(std::string_view line) {
    std::uint64_t numbers[5] = {};
    for (std::uint64_t& number : numbers) {
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
        if (error != std::errc() || end == line.data() + line.size() || *end != ' ') return std::nullopt;
        line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
    }
    Answered answered{{numbers[0], static_cast<unsigned>(numbers[1]), numbers[2], static_cast<std::int64_t>(numbers[3]),
                       numbers[4] != 0},
                      ""};
    if (line.size() % 2 != 0) return std::nullopt;
    for (std::size_t i = 0; i < line.size(); i += 2) {
        unsigned byte = 0;
        const auto [end, error] = std::from_chars(line.data() + i, line.data() + i + 2, byte, 16);
        if (error != std::errc() || end != line.data() + i + 2) return std::nullopt;
        answered.reply.push_back(static_cast<char>(byte));
    }
    return answered;
}

}  // namespace interlock::crash
