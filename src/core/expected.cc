#include "core/expected.h"

#include <type_traits>

namespace interlock::core {
namespace {

struct Expected {
    OrgState& state;
    Stamp stamp;
    std::vector<ColdRow>& rows;

    template <class Body>
    void operator()(const Body& body) {
        if constexpr (requires { body.session; }) session(body.session);
        if constexpr (std::is_same_v<Body, ForkSession>) session(body.from);
        if constexpr (requires { body.run; }) run(body.run);
        if constexpr (requires { body.hold.value; }) hold(body.hold);
        if constexpr (requires { body.who; }) spending(body.who, stamp.at);
        if constexpr (std::is_same_v<Body, CorrectCharge>) correction(body.event);
        if constexpr (std::is_same_v<Body, AdmitRun>) {
            if (body.hold != Amounts{}) hold(HoldId(first_derived_id("run_hold", body.run.value)));
        }
        if constexpr (std::is_same_v<Body, FinishRun> || std::is_same_v<Body, CancelRun> ||
                      std::is_same_v<Body, LoseRun> || std::is_same_v<Body, RestatePlaces>) {
            end_of(body.run);
        }
        if constexpr (requires { body.charge; }) {
            if (body.charge) final_charge(body.run, *body.charge);
        }
    }

    template <class Row>
    void add(const KeyOf<Row>& key) {
        rows.emplace_back(with_key<Row>(key));
    }
    void session(SessionId id) {
        if (!id.value.empty() && !state.sessions.knows(id)) add<Session>(id);
    }
    void run(RunId id) {
        if (!id.value.empty() && !state.knows_run(id)) add<Run>(id);
    }
    void hold(HoldId id) {
        if (id.value.empty()) return;
        if (!state.knows_hold(id)) return add<Hold>(id);
        const Hold* known = state.hold(id);
        if (known == nullptr) return;
        spending(known->who, known->created_at);
        if (!known->event.value.empty()) correction(known->event);
    }
    void spending(const Attribution& who, Instant counted_at) {
        session(who.session);
        run(who.run);
        for (LiveBudget* budget : state.budgets_covering(who)) {
            const KeyOf<Window> window{budget->row.name, budget->window_at(counted_at).start};
            if (!state.windows.knows(window)) add<Window>(window);
        }
        const KeyOf<Rollup> day{utc_day(counted_at), who.agent, who.provider, who.model};
        if (!state.rollups.knows(day)) add<Rollup>(day);
    }
    void correction(CommandKey event) {
        add<CostEvent>(event);
        if (!state.corrected_costs.knows(event)) add<CorrectedCost>(event);
    }
    void end_of(RunId id) {
        const Run* known = state.knows_run(id) ? state.run(id) : nullptr;
        if (known != nullptr && known->supervised) add<Launch>(id);
        if (known == nullptr || known->hold.value.empty()) return;
        hold(known->hold);
        add<CostEvent>(CommandKey(first_derived_id("hold_at_bound", known->hold.value)));
    }
    void final_charge(RunId id, const FinalCharge& charge) {
        add<CostEvent>(CommandKey(first_derived_id("final_charge", id.value)));
        const Run* known = state.knows_run(id) ? state.run(id) : nullptr;
        if (known == nullptr) return;
        Attribution who = known->who;
        if (!charge.provider.empty()) who.provider = charge.provider;
        if (!charge.model.empty()) who.model = charge.model;
        spending(who, stamp.at);
    }
};

}  // namespace

void add_expected(OrgState& state, Stamp stamp, const CommandBody& body, std::vector<ColdRow>& rows) {
    std::visit(Expected{state, stamp, rows}, body);
}

Id first_derived_id(std::string_view what, Id of) { return id_from_hash(to_text(what, of)); }

}  // namespace interlock::core
