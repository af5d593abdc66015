// The people who run the place: agents, keys, caps and budgets come, change and go while everybody works.
#include <fmt/format.h>

#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Admin : public Workload {
 public:
    void setup(World& world) override;
    void start(World& world) override;

 private:
    void put_agent(World& world, KnownOrg& org, const std::string& name);
    void set_cap(World& world, KnownOrg& org);
    void change_budget(World& world, KnownOrg& org);
    void make_budget(World& world, KnownOrg& org, bool strict);
    void change_key(World& world, KnownOrg& org);
};

Scope some_scope(Random& random, const KnownOrg& org) {
    Scope scope;
    switch (random.below(10)) {
        case 0:
            break;  // The whole org.
        case 1:
        case 2:
            scope.agent = random.pick(org.agents);
            break;
        case 3:
            scope.provider = random.pick(provider_names);
            break;
        case 4:
            scope.model = random.pick(model_names);
            break;
        case 5:
            scope.tags["team"] = random.pick(team_names);
            break;
        case 6:
            scope.workflow = "nightly";
            break;
        case 7:
            scope.api_key = "key-1";
            break;
        case 8:
            if (!org.sessions.empty()) scope.session = random.pick(org.sessions);
            break;
        default:
            if (!org.runs.empty()) scope.run = random.pick(org.runs).id;
    }
    if (random.percent(20)) scope.provider = random.pick(provider_names);
    return scope;
}

// Small enough to be reached within the story.
std::int64_t some_limit(Random& random, Metric metric) {
    switch (metric) {
        case Metric::usd:
            return random.spread(300'000) + (random.percent(3) ? 0 : 2'000);
        case Metric::tokens:
            return random.spread(200'000) + 500;
        case Metric::calls:
            return random.spread(300) + 1;
        case Metric::runs:
            return random.spread(40) + 1;
    }
    return 0;
}

void vary(Random& random, PutBudget& budget) {
    budget.limit_units = some_limit(random, budget.metric);
    budget.hard = random.percent(80);
    budget.warn = random.percent(50) ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{50, 80, 100};
    budget.on_exhausted =
        random.pick({OnExhausted::refuse, OnExhausted::refuse, OnExhausted::pause_agent, OnExhausted::stop_runs});
}

PutBudget some_budget(Random& random, const KnownOrg& org) {
    PutBudget budget;
    budget.name = fmt::format("budget-{}", org.budgets.size());
    budget.scope = some_scope(random, org);
    budget.metric = random.pick({Metric::usd, Metric::usd, Metric::usd, Metric::tokens, Metric::calls, Metric::runs});
    budget.window =
        random.pick({WindowKind::day, WindowKind::day, WindowKind::week, WindowKind::month, WindowKind::total});
    budget.zone = random.pick(zone_names);
    vary(random, budget);
    return budget;
}

void Admin::setup(World& world) {
    Random& random = world.random;
    for (std::uint32_t i = 1; i <= world.profile.orgs; ++i) {
        KnownOrg& org = world.known.orgs.emplace_back();
        org.id = OrgId(i);
        world.call(*this, org.id, CreateOrg{fmt::format("org-{}", i)});
        world.settle();
        const std::uint64_t agents = 2 + random.below(6);
        for (std::uint64_t agent = 0; agent < agents; ++agent) {
            org.agents.push_back(fmt::format("agent-{}", agent));
            put_agent(world, org, org.agents.back());
        }
        const std::uint64_t caps = random.below(4);
        for (std::uint64_t cap = 0; cap < caps; ++cap) set_cap(world, org);
        const std::uint64_t budgets = random.below(9);
        for (std::uint64_t budget = 0; budget < budgets; ++budget) make_budget(world, org, random.percent(40));
    }
}

void Admin::start(World& world) {
    Random& random = world.random;
    KnownOrg& org = random.pick(world.known.orgs);
    const std::string& agent = random.pick(org.agents);
    switch (random.below(16)) {
        case 0:
            if (org.agents.size() < 12 && random.percent(20))
                org.agents.push_back(fmt::format("agent-{}", org.agents.size()));
            put_agent(world, org, org.agents.back());
            return;
        case 1:
            return put_agent(world, org, agent);
        case 2:
            world.call(*this, org.id, PauseAgent{agent, "lunch"});
            return;
        case 3:
        case 4:
            world.call(*this, org.id, ResumeAgent{agent});
            return;
        case 5:
            world.call(*this, org.id, ArchiveAgent{agent});
            if (random.percent(70)) put_agent(world, org, agent);
            return;
        case 6:
        case 7:
            return set_cap(world, org);
        case 8:
            return change_key(world, org);
        case 10:
            world.call(*this, org.id, CreateOrg{fmt::format("org-{}", org.id.value)});
            world.call(*this, org.id, CreateOrg{"another"}, {.expect = Expect::refusal});
            return;
        case 9:
            if (org.budgets.size() < 20) return make_budget(world, org, false);
            return change_budget(world, org);
        default:
            return change_budget(world, org);
    }
}

void Admin::put_agent(World& world, KnownOrg& org, const std::string& name) {
    PutAgent put{
        .name = name, .command = {"work", "--hard"}, .max_concurrent_runs = world.random.between32(0, 4), .tags = {}};
    if (put.max_concurrent_runs == 0 && world.random.percent(80)) put.max_concurrent_runs = 2;
    // Where keys of the agent may claim: everywhere, in a part, or nowhere.
    if (world.random.percent(70)) put.resolved_roots = put.roots = {world.random.percent(70) ? "/" : "/w/a"};
    if (world.random.percent(30)) put.tags["team"] = world.random.pick(team_names);
    world.call(*this, org.id, std::move(put));
}

void Admin::set_cap(World& world, KnownOrg& org) {
    SetCap set{.kind = world.random.pick({CapKind::org, CapKind::provider, CapKind::node}), .name = {}, .max_live = {}};
    if (set.kind == CapKind::provider) set.name = world.random.pick(provider_names);
    if (set.kind == CapKind::node) set.name = node_names[1 + world.random.below(2)];
    if (world.random.percent(70)) set.max_live = world.random.between32(world.random.percent(5) ? 0 : 1, 6);
    world.call(*this, org.id, std::move(set));
}

void Admin::make_budget(World& world, KnownOrg& org, bool strict) {
    PutBudget put = some_budget(world.random, org);
    if (strict) put.hard = true;
    org.budgets.push_back({put, strict});
    // Without a key a request that meets a full queue is not repeated, and the budget would not be there.
    CallOptions options;
    if (strict) options.key = CommandKey(world.new_id());
    world.call(*this, org.id, std::move(put), options);
}

void Admin::change_budget(World& world, KnownOrg& org) {
    if (org.budgets.empty()) return;
    Random& random = world.random;
    KnownBudget& budget = random.pick(org.budgets);
    const std::string name = budget.put.name;
    if (random.percent(45)) {
        world.call(*this, org.id, UnfreezeBudget{name});
    } else if (budget.strict) {
        world.call(*this, org.id, budget.put);  // Whoever made it may ask for it again; nothing changes.
    } else if (random.percent(15)) {
        world.call(*this, org.id, DeleteBudget{name});
        if (random.percent(60)) world.call(*this, org.id, budget.put);
    } else if (random.percent(10)) {
        PutBudget other = budget.put;
        other.metric = other.metric == Metric::usd ? Metric::calls : Metric::usd;
        world.call(*this, org.id, std::move(other));
    } else {
        vary(random, budget.put);
        world.call(*this, org.id, budget.put);
    }
}

void Admin::change_key(World& world, KnownOrg& org) {
    const std::string id = fmt::format("key-{}", world.random.below(20));
    if (world.random.percent(40)) {
        world.call(*this, org.id, RevokeKey{id});
        return;
    }
    CreateKey create{.id = id, .hash = "c0ffee", .scopes = {"agent"}, .agent = {}, .run = {}, .budget = {}, .note = {}};
    if (world.random.percent(50)) create.agent = world.random.pick(org.agents);
    if (world.random.percent(30)) create.budget = fmt::format("budget-{}", world.random.below(10));
    world.call(*this, org.id, std::move(create));
}

}  // namespace

std::unique_ptr<Workload> make_admin() { return std::make_unique<Admin>(); }

}  // namespace interlock::sim
