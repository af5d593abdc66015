#include "crash/workload.h"

#include <algorithm>
#include <chrono>
#include <type_traits>

namespace interlock::crash {

using namespace std::chrono_literals;

namespace {

std::string agent_name(std::size_t number) { return "agent-" + std::to_string(number); }

core::Scope of_agent(std::string agent) {
    core::Scope scope;
    scope.agent = std::move(agent);
    return scope;
}

core::Attribution by_agent(std::string agent) {
    core::Attribution who;
    who.agent = std::move(agent);
    who.provider = "maker";
    who.model = "small";
    return who;
}

core::Place directory(std::string path, std::vector<std::string> chain) {
    return {.kind = core::ClaimKind::workspace,
            .host = "host",
            .path = std::move(path),
            .chain = std::move(chain),
            .mode = core::ClaimMode::write};
}

}  // namespace

Workload::Workload(std::uint64_t seed)
    : random_(seed), now_(from_micros(1'793'491'200'000'000) + 23h + 50min) {}  // Ten minutes before a midnight.

std::vector<core::Command> Workload::setup() {
    std::vector<core::Command> commands;
    const auto add = [&](core::CommandBody body) { commands.push_back(command(std::move(body))); };
    add(core::CreateOrg{.name = "default"});
    for (std::size_t i = 0; i < agents; ++i) {
        add(core::PutAgent{.name = agent_name(i), .command = {"work"}, .max_concurrent_runs = 2, .tags = {}});
        add(core::PutBudget{.name = agent_name(i) + "-daily",
                            .scope = of_agent(agent_name(i)),
                            .window = WindowKind::day,
                            .limit_units = 3'000'000,
                            .warn = {50, 90},
                            .on_exhausted = core::OnExhausted::refuse});
    }
    add(core::PutBudget{.name = "everything",
                        .scope = {},
                        .window = WindowKind::month,
                        .limit_units = 1'000'000'000,
                        .warn = {80},
                        .on_exhausted = core::OnExhausted::refuse});
    add(core::PutBudget{.name = "calls",
                        .scope = of_agent(agent_name(0)),
                        .metric = core::Metric::calls,
                        .window = WindowKind::week,
                        .limit_units = 100'000,
                        .warn = {},
                        .on_exhausted = core::OnExhausted::pause_agent});
    add(core::SetCap{.kind = core::CapKind::org, .name = "", .max_live = 5});
    for (std::size_t i = 0; i < 3; ++i) {
        sessions_.push_back(core::SessionId(fresh_id()));
        add(core::CreateSession{
            .session = sessions_.back(), .agent = agent_name(i), .title = "a talk", .metadata = ""});
    }
    add(core::PutSchedule{.name = "sweep",
                          .agent = agent_name(5),
                          .every_s = 120,
                          .cron = "",
                          .overlap = core::Overlap::skip,
                          .missed = core::Missed::one,
                          .places = {},
                          .lease_s = 60,
                          .hold = {}});
    return commands;
}

std::vector<core::Command> Workload::next_batch() {
    now_ += random_.percent(5) ? Duration(11min) : Duration(random_.below(3'000'000));
    std::vector<core::Command> commands;
    for (std::size_t count = 1 + random_.below(10); count > 0; --count) {
        // A lost answer: the client asks again with the key it had.
        if (!recent_.empty() && random_.percent(5)) {
            commands.push_back(recent_[random_.below(recent_.size())]);
        } else {
            commands.push_back(command(some_body()));
        }
    }
    return commands;
}

core::Command Workload::command(core::CommandBody body) {
    const std::uint64_t fingerprint = core::fingerprint_of(body);
    core::Command made{.org = org, .key = {}, .body = std::move(body), .fingerprint = fingerprint};
    // Some clients bring keys of their own that are not ordered by time.
    made.key = core::CommandKey(random_.percent(10) ? id_from_hash(std::to_string(ids_++)) : fresh_id());
    return made;
}

core::CommandBody Workload::some_body() {
    const std::uint64_t dice = random_.below(100);
    if (dice < 35) return some_charge();
    if (dice < 45) {
        const core::HoldId hold(fresh_id());
        return core::Reserve{.hold = hold,
                             .who = by_agent(some_agent()),
                             .fence = {},
                             .bound = {.usd = 20'000, .tokens = 2'000, .calls = 1},
                             .ttl_s = 30,
                             .dispatched = random_.percent(50)};
    }
    if (dice < 55 && !holds_.empty()) {
        const core::HoldId hold = holds_[random_.below(holds_.size())];
        if (random_.percent(25)) return core::ReleaseHold{.hold = hold};
        return core::SettleHold{.hold = hold,
                                .cost = Money::nanos(static_cast<std::int64_t>(random_.below(20'000))),
                                .usage = {.input_tokens = 700, .output_tokens = 100},
                                .price = ""};
    }
    if (dice < 70) return some_turn();
    if (dice < 82) return some_admission();
    if (dice < 96 && !runs_.empty()) return next_of_a_run();
    if (dice < 98) return core::Wake{.schedule = "sweep", .run = core::RunId(fresh_id())};
    return core::PauseAgent{.name = some_agent(), .reason = "a person wanted to look"};
}

core::CommandBody Workload::some_charge() {
    core::Charge charge;
    charge.who = by_agent(some_agent());
    if (random_.percent(50)) charge.who.model = "large";
    charge.cost = Money::nanos(static_cast<std::int64_t>(1 + random_.below(50'000)));
    charge.usage = {.input_tokens = static_cast<std::int64_t>(random_.below(5'000)), .output_tokens = 10};
    if (random_.percent(30)) charge.who.session = sessions_[random_.below(sessions_.size())];
    if (random_.percent(5)) charge.who.agent = "nobody";
    if (random_.percent(3)) charge.cost = Money::dollars(5);  // More than any budget has.
    return charge;
}

core::CommandBody Workload::some_turn() {
    core::Append append;
    // Most of what is said is said in one session, by many writers.
    append.session = sessions_[random_.percent(70) ? 0 : random_.below(sessions_.size())];
    for (std::size_t count = 1 + random_.below(3); count > 0; --count) {
        append.messages.push_back({.id = core::MessageId(fresh_id()),
                                   .role = random_.percent(50) ? "user" : "assistant",
                                   .content = some_text(random_.percent(3) ? 9'000 : 300),
                                   .metadata = "",
                                   .input_tokens = 5,
                                   .output_tokens = 7});
    }
    return append;
}

core::CommandBody Workload::some_admission() {
    static const core::Place places[] = {
        directory("/srv/a", {"1:10", "1:2"}),
        directory("/srv/a/inner", {"1:11", "1:10", "1:2"}),
        directory("/srv/b", {"1:20", "1:2"}),
        directory("/mnt/a-again", {"1:10", "1:3"}),
    };
    core::AdmitRun admit;
    admit.run = core::RunId(fresh_id());
    admit.who.agent = some_agent();
    admit.node = "node";
    admit.places = {places[random_.below(std::size(places))]};
    admit.on_conflict = random_.percent(60) ? core::OnConflict::queue : core::OnConflict::refuse;
    admit.priority = static_cast<std::int32_t>(random_.below(3));
    if (random_.percent(40)) admit.hold = {.usd = 50'000};
    admit.lease_s = 30;
    return admit;
}

core::CommandBody Workload::next_of_a_run() {
    const LiveRun live = runs_[random_.below(runs_.size())];
    const std::uint64_t dice = random_.below(100);
    if (dice < 20) return core::StartRun{.run = live.run, .fence = live.fence};
    if (dice < 40) return core::HeartbeatRun{.run = live.run, .fence = live.fence};
    if (dice < 50) {
        core::Charge charge;
        charge.who = by_agent(some_agent());
        charge.who.run = live.run;
        charge.fence = live.fence;
        charge.cost = Money::nanos(5'000);
        return charge;
    }
    if (dice < 60) return core::CancelRun{.run = live.run, .fence = live.fence, .reason = "enough", .charge = {}};
    return core::FinishRun{
        .run = live.run,
        .fence = live.fence,
        .outcome = core::RunState::succeeded,
        .reason = "",
        .charge = core::FinalCharge{
            .provider = "maker", .model = "large", .cost = Money::nanos(12'345), .usage = {}, .price = ""}};
}

void Workload::heard(const core::Command& command, const core::Reply& reply) {
    if (const auto* admitted = std::get_if<core::AdmitReply>(&reply)) {
        if (admitted->status == core::AdmitStatus::admitted) runs_.push_back({admitted->run, admitted->fence});
    }
    if (const auto* held = std::get_if<core::ReserveReply>(&reply)) {
        if (held->status == core::ReserveStatus::held) holds_.push_back(held->hold);
    }
    // Old ones stay for a while, so that runs that have ended and holds that are closed are asked about as well.
    if (runs_.size() > 12) runs_.erase(runs_.begin());
    if (holds_.size() > 12) holds_.erase(holds_.begin());
    recent_.push_back(command);
    if (recent_.size() > 40) recent_.erase(recent_.begin());
}

Id Workload::fresh_id() { return time_ordered_id(now_, 0, ids_++); }

std::string Workload::some_agent() { return agent_name(random_.percent(50) ? 0 : random_.below(agents)); }

std::string Workload::some_text(std::size_t bytes_max) {
    std::string text(1 + random_.below(bytes_max), ' ');
    for (char& letter : text) letter = static_cast<char>('a' + random_.below(26));
    return text;
}

bool says_done(const core::Reply& reply) {
    return std::visit(
        [](const auto& answer) {
            using T = std::decay_t<decltype(answer)>;
            if constexpr (std::is_same_v<T, core::TickReply> || std::is_same_v<T, core::NoSuchOrg>) {
                return false;
            } else if constexpr (std::is_same_v<T, core::AdmitReply>) {
                return answer.status <= core::AdmitStatus::queued;
            } else if constexpr (std::is_same_v<T, core::RunReply>) {
                return answer.status <= core::RunStatus::stop_requested;
            } else if constexpr (std::is_same_v<T, core::WakeReply>) {
                return answer.status <= core::WakeStatus::coalesced;
            } else {
                return static_cast<int>(answer.status) == 0;
            }
        },
        reply);
}

}  // namespace interlock::crash
