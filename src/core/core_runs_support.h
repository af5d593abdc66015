// Short words for the tests of runs, schedules and sessions: places, admissions, and owners who speak for their runs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/core_test_support.h"

namespace interlock::core {

inline Place workspace(std::string path, ClaimMode mode = ClaimMode::write) {
    return {.kind = ClaimKind::workspace, .host = "host", .path = std::move(path), .chain = {}, .mode = mode};
}
inline Place resource(std::string name, ClaimMode mode = ClaimMode::write) {
    return {.kind = ClaimKind::resource, .host = {}, .path = std::move(name), .chain = {}, .mode = mode};
}

inline Amounts usd(Money amount) {
    Amounts amounts;
    amounts.usd = amount.nanos();
    return amounts;
}

// A run and what its owner shows to speak for it.
struct Owned {
    RunId run;
    Fence fence;
};

class RunsTest : public CoreTest {
 protected:
    using seconds = std::chrono::seconds;
    static constexpr Duration moment = Duration(1);

    AdmitRun asking(const std::string& agent, std::vector<Place> places = {},
                    OnConflict on_conflict = OnConflict::refuse) {
        AdmitRun command;
        command.run = fresh_run();
        command.who.agent = agent;
        command.places = std::move(places);
        command.on_conflict = on_conflict;
        return command;
    }

    // The run must be admitted, or put in line.
    Owned admit(const AdmitRun& command) {
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, AdmitStatus::admitted) << reply.detail;
        EXPECT_EQ(reply.run, command.run);
        return {command.run, reply.fence};
    }
    RunId enqueue(AdmitRun command) {
        command.on_conflict = OnConflict::queue;
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, AdmitStatus::queued) << reply.detail;
        EXPECT_EQ(reply.run, command.run);
        EXPECT_EQ(reply.fence, Fence());
        return command.run;
    }

    RunState state_of(RunId run) { return get<Run>(run).state; }
    // Speaks for a run that was admitted from the line.
    Owned owner_of(RunId run) { return {run, get<Run>(run).fence}; }
    std::size_t claims_of(RunId run) {
        const OrgRows all = rows();
        std::size_t count = 0;
        for (const auto& [key, claim] : all.of<Claim>()) count += claim.run == run ? 1 : 0;
        return count;
    }

    RunReply start(Owned owned) { return apply(StartRun{owned.run, owned.fence}); }
    RunReply heartbeat(Owned owned) { return apply(HeartbeatRun{owned.run, owned.fence}); }
    RunReply pause(Owned owned) { return apply(PauseRun{owned.run, owned.fence}); }
    RunReply resume(Owned owned) { return apply(ResumeRun{owned.run, owned.fence}); }
    RunReply finish(Owned owned, RunState outcome = RunState::succeeded, std::optional<FinalCharge> charge = {}) {
        return apply(FinishRun{owned.run, owned.fence, outcome, "as it goes", std::move(charge)});
    }
    RunReply cancel(Owned owned, std::optional<FinalCharge> charge = {}) {
        return apply(CancelRun{owned.run, owned.fence, "enough", std::move(charge)});
    }
    RunReply ask_to_stop(RunId run, std::string reason = "please") {
        return apply(CancelRun{run, {}, std::move(reason), {}});
    }
    RunReply lose(Owned owned) { return apply(LoseRun{owned.run, owned.fence, "gone"}); }

    static FinalCharge costing(Money cost) {
        FinalCharge charge;
        charge.cost = cost;
        return charge;
    }

    // For limits that take very many rows: a store that has `count` of them, each like this one but for what `change`
    // does to it. Afterwards commands are applied without the fixture's look at all rows, which would take hours.
    template <class Row, class Change>
    void fill(std::size_t count, const Row& like, Change change) {
        commit();
        for (std::size_t i = 0; i < count; ++i) {
            Row row = like;
            change(row, i);
            auto key = key_of(row);
            source.orgs[org].template of<Row>().insert_or_assign(std::move(key), std::move(row));
        }
        reload();
    }
    template <class Body>
    ReplyTo<Body> unwatched(const Body& body) {
        return std::get<ReplyTo<Body>>(machine.apply({now}, command_of({}, body)).reply);
    }

    // A hard budget for everything in the org.
    static PutBudget budget_of(const std::string& name, Money limit) {
        PutBudget command;
        command.name = name;
        command.limit_units = limit.nanos();
        return command;
    }
    void put(const PutBudget& command) {
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, BudgetStatus::done) << reply.detail;
    }
    void cap(CapKind kind, const std::string& name, std::optional<std::int32_t> max_live) {
        const auto reply = apply(SetCap{kind, name, max_live});
        EXPECT_EQ(reply.status, CapStatus::done) << reply.detail;
    }
    ChargeReply spend(const std::string& agent, Money cost, bool incurred = false) {
        Charge command;
        command.who.agent = agent;
        command.cost = cost;
        command.incurred = incurred;
        return apply(command);
    }
};

}  // namespace interlock::core
