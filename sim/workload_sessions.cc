// Those who talk: many writers per session, turns of several messages, writers who state the number they expect, forks.
#include <fmt/format.h>

#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Writers : public Workload {
 public:
    void setup(World& world) override;
    void start(World& world) override;
    void heard(World& world, const Call& call, const engine::SubmitResult& answer) override;

 private:
    void create(World& world, KnownOrg& org);
    void append(World& world, KnownOrg& org);

    std::unordered_map<SessionId, std::int64_t> next_seq_;  // As last heard.
};

void Writers::setup(World& world) {
    for (KnownOrg& org : world.known.orgs) {
        const std::uint64_t count = 1 + world.random.below(4);
        for (std::uint64_t i = 0; i < count; ++i) create(world, org);
    }
}

void Writers::start(World& world) {
    Random& random = world.random;
    KnownOrg& org = random.pick(world.known.orgs);
    if (org.sessions.empty() || random.percent(2)) return create(world, org);
    const SessionId session = random.pick(org.sessions);
    if (random.percent(2)) {
        const std::int64_t next = next_seq_[session];
        const std::int64_t at = next > 0 ? random.between(0, next - 1) : 0;
        // Once told that a number is there, it is there for good; what nobody was told of may be there too.
        world.call(*this, org.id,
                   ForkSession{session, random.percent(10) ? next + 50 : at, SessionId(world.new_id()), "fork"});
    } else if (random.percent(1)) {
        world.call(*this, org.id, CloseSession{session});
    } else {
        append(world, org);
    }
}

void Writers::create(World& world, KnownOrg& org) {
    CreateSession create{.session = SessionId(world.new_id()),
                         .agent = world.random.pick(org.agents),
                         .title = "talk",
                         .metadata = "{}"};
    if (!org.sessions.empty() && world.random.percent(10)) create.session = world.random.pick(org.sessions);
    world.call(*this, org.id, std::move(create));
}

void Writers::append(World& world, KnownOrg& org) {
    Random& random = world.random;
    // Most writers meet in one session.
    const SessionId session = random.percent(50) ? org.sessions.front() : random.pick(org.sessions);
    Append append{.session = session, .messages = {}, .expected_seq = {}, .run = {}, .fence = {}};
    const std::uint64_t messages = random.pick({1u, 1u, 1u, 2u, 2u, 5u});
    for (std::uint64_t i = 0; i < messages; ++i) {
        append.messages.push_back({.id = MessageId(world.new_id()),
                                   .role = random.pick({"user", "assistant", "system", "tool"}),
                                   .content = fmt::format("message {}", random.below(1'000'000)),
                                   .metadata = "",
                                   .input_tokens = random.spread(100),
                                   .output_tokens = random.spread(100)});
    }
    if (random.percent(35)) append.expected_seq = next_seq_[session];
    CallOptions options;
    if (!org.runs.empty() && random.percent(30)) {
        const std::uint64_t back = std::min<std::uint64_t>(org.runs.size(), 15);
        const KnownRun& run = org.runs[org.runs.size() - 1 - random.below(back)];
        append.run = run.id;
        if (random.percent(80)) append.fence = run.fence;
        if (run.over) options = {.expect = Expect::refusal, .broken = Promise::fenced};
    }
    world.call(*this, org.id, std::move(append), options);
}

void Writers::heard(World& world, const Call& call, const engine::SubmitResult& answer) {
    if (!answer) return;
    KnownOrg& org = world.known.of(call.command.org);
    const auto add = [&](SessionId session, std::int64_t next_seq) {
        if (std::ranges::find(org.sessions, session) == org.sessions.end()) org.sessions.push_back(session);
        std::int64_t& next = next_seq_[session];
        next = std::max(next, next_seq);
    };
    if (const auto* create = std::get_if<CreateSession>(&call.command.body)) {
        if (says_done(answer->reply)) add(create->session, 0);
    } else if (const auto* fork = std::get_if<ForkSession>(&call.command.body)) {
        if (says_done(answer->reply)) add(fork->session, fork->at_seq + 1);
    } else if (const auto* append = std::get_if<Append>(&call.command.body)) {
        const auto& reply = std::get<AppendReply>(answer->reply);
        if (says_done(answer->reply) || reply.status == AppendStatus::unexpected_seq)
            add(append->session, reply.next_seq);
    }
}

}  // namespace

std::unique_ptr<Workload> make_sessions() { return std::make_unique<Writers>(); }

}  // namespace interlock::sim
