#include "bench/workload.h"

#include <fmt/format.h>

#include <chrono>
#include <random>
#include <utility>

namespace interlock::bench {

using namespace core;

namespace {

constexpr Money cost_of_one = Money::nanos(750'000);
constexpr Money bound_of_one = Money::nanos(900'000);

std::string agent_name(std::size_t number) { return fmt::format("agent-{:04}", number); }

Attribution attribution(std::size_t agent) {
    Attribution who;
    who.agent = agent_name(agent);
    who.provider = "anthropic";
    who.model = "claude-sonnet-4";
    return who;
}

Usage usage_of_one() {
    Usage usage;
    usage.input_tokens = 100;
    usage.output_tokens = 30;
    return usage;
}

// Agents 0 … n-1, each with a monthly budget of its own that is never used up.
std::vector<CommandBody> agents_with_budgets(std::size_t count) {
    std::vector<CommandBody> commands;
    for (std::size_t i = 0; i < count; ++i) {
        PutAgent agent;
        agent.name = agent_name(i);
        agent.max_concurrent_runs = 10'000;
        commands.push_back(std::move(agent));

        PutBudget budget;
        budget.name = fmt::format("month-{:04}", i);
        budget.scope.agent = agent_name(i);
        budget.limit_units = Money::dollars(1'000'000'000).nanos();
        budget.warn = {50, 80};
        commands.push_back(std::move(budget));
    }
    return commands;
}

class Differences {
 public:
    explicit Differences(store::Snapshot& rows) : rows_(rows) {}

    void expect(std::string_view what, std::string_view sql, std::int64_t answered) {
        const std::int64_t stored = read_number(rows_, sql);
        if (stored != answered) found.push_back(fmt::format("{}: stored {}, answered {}", what, stored, answered));
    }
    std::vector<std::string> found;

 private:
    store::Snapshot& rows_;
};

class Charges : public Workload {
 public:
    Charges(std::string name, std::size_t agents) : name_(std::move(name)), agents_(agents) {
        for (std::size_t i = 0; i < agents; ++i) {
            Charge charge;
            charge.who = attribution(i);
            charge.cost = cost_of_one;
            charge.usage = usage_of_one();
            models_.push_back(std::move(charge));
        }
    }
    std::string_view name() const override { return name_; }
    std::vector<CommandBody> setup(Ids&) override { return agents_with_budgets(agents_); }
    void begin(std::size_t) override {}

    CommandBody next(std::size_t, Ids&) override { return models_[turn_++ % agents_]; }

    bool answered(std::size_t, const engine::SubmitResult& answer) override {
        const auto* reply = answer ? std::get_if<ChargeReply>(&answer->reply) : nullptr;
        if (reply == nullptr || reply->status != ChargeStatus::charged) return false;
        ++charged_;
        return true;
    }

    std::vector<std::string> differences(store::Snapshot& rows) override {
        Differences differences(rows);
        const std::int64_t cost = charged_ * cost_of_one.nanos();
        differences.expect("cost events", "select count(*) from cost_events", charged_);
        differences.expect("cost of the events", "select sum(cost) from cost_events", cost);
        differences.expect("totals of the agents", "select sum(settled) from agent_totals", cost);
        differences.expect("budget windows", "select sum(settled) from budget_windows", cost);
        differences.expect("roll-ups", "select sum(cost) from rollups", cost);
        return differences.found;
    }

 private:
    const std::string name_;
    const std::size_t agents_;
    std::vector<Charge> models_;
    std::size_t turn_ = 0;
    std::int64_t charged_ = 0;
};

class HoldsAndSettles : public Workload {
 public:
    explicit HoldsAndSettles(std::size_t agents) : agents_(agents) {}
    std::string_view name() const override { return "hold + settle"; }
    std::vector<CommandBody> setup(Ids&) override { return agents_with_budgets(agents_); }
    void begin(std::size_t clients) override { clients_.assign(clients, {}); }

    CommandBody next(std::size_t number, Ids& ids) override {
        Client& client = clients_[number];
        client.settles = !client.settles && !client.hold.value.empty();
        if (client.settles) {
            SettleHold settle;
            settle.hold = client.hold;
            settle.cost = cost_of_one;
            settle.usage = usage_of_one();
            return settle;
        }
        client.hold = HoldId(ids.next());
        Reserve reserve;
        reserve.hold = client.hold;
        reserve.who = attribution(turn_++ % agents_);
        reserve.bound.usd = bound_of_one.nanos();
        reserve.bound.tokens = 200;
        reserve.bound.calls = 1;
        reserve.ttl_s = 3600;
        reserve.dispatched = true;
        return reserve;
    }

    bool answered(std::size_t number, const engine::SubmitResult& answer) override {
        if (!answer) return false;
        if (clients_[number].settles) {
            const auto* reply = std::get_if<SettleReply>(&answer->reply);
            if (reply == nullptr || reply->status != HoldStatus::done) return false;
            ++settled_;
        } else {
            const auto* reply = std::get_if<ReserveReply>(&answer->reply);
            if (reply == nullptr || reply->status != ReserveStatus::held) return false;
            ++held_;
        }
        return true;
    }

    std::vector<std::string> differences(store::Snapshot& rows) override {
        Differences differences(rows);
        const std::int64_t cost = settled_ * cost_of_one.nanos();
        differences.expect("holds", "select count(*) from holds", held_);
        differences.expect("cost events", "select count(*) from cost_events", settled_);
        differences.expect("budget windows, settled", "select sum(settled) from budget_windows", cost);
        differences.expect("budget windows, held", "select sum(held) from budget_windows",
                           (held_ - settled_) * bound_of_one.nanos());
        return differences.found;
    }

 private:
    struct Client {
        HoldId hold;
        bool settles = false;  // What it has asked last.
    };
    const std::size_t agents_;
    std::vector<Client> clients_;
    std::size_t turn_ = 0;
    std::int64_t held_ = 0;
    std::int64_t settled_ = 0;
};

class Appends : public Workload {
 public:
    Appends(std::string name, std::size_t sessions, std::size_t bytes)
        : name_(std::move(name)), count_(sessions), content_(bytes, 'x') {}
    std::string_view name() const override { return name_; }

    std::vector<CommandBody> setup(Ids& ids) override {
        std::vector<CommandBody> commands = agents_with_budgets(1);
        for (std::size_t i = 0; i < count_; ++i) {
            CreateSession create;
            create.session = SessionId(ids.next());
            create.agent = agent_name(0);
            sessions_.push_back(create.session);
            commands.push_back(std::move(create));
        }
        return commands;
    }
    void begin(std::size_t) override {}

    CommandBody next(std::size_t, Ids& ids) override {
        Append append;
        append.session = sessions_[turn_++ % count_];
        NewMessage& message = append.messages.emplace_back();
        message.id = MessageId(ids.next());
        message.role = "assistant";
        message.content = content_;
        message.output_tokens = 250;
        return append;
    }

    bool answered(std::size_t, const engine::SubmitResult& answer) override {
        const auto* reply = answer ? std::get_if<AppendReply>(&answer->reply) : nullptr;
        if (reply == nullptr || reply->status != AppendStatus::appended) return false;
        ++appended_;
        return true;
    }

    std::vector<std::string> differences(store::Snapshot& rows) override {
        Differences differences(rows);
        differences.expect("messages", "select count(*) from messages", appended_);
        differences.expect("next numbers", "select sum(next_seq) from sessions", appended_);
        differences.expect("sessions with a gap",
                           "select count(*) from (select session from messages group by session"
                           " having count(*) <> max(seq) + 1)",
                           0);
        return differences.found;
    }

 private:
    const std::string name_;
    const std::size_t count_;
    const std::string content_;
    std::vector<SessionId> sessions_;
    std::size_t turn_ = 0;
    std::int64_t appended_ = 0;
};

class Runs : public Workload {
 public:
    explicit Runs(std::size_t agents) : agents_(agents) {}
    std::string_view name() const override { return "run admit + finish"; }
    std::vector<CommandBody> setup(Ids&) override { return agents_with_budgets(agents_); }

    // Clients of an earlier loop may have left a run behind, so places are never used by two loops.
    void begin(std::size_t clients) override {
        clients_.assign(clients, {});
        ++loop_;
    }

    CommandBody next(std::size_t number, Ids& ids) override {
        Client& client = clients_[number];
        client.finishes = !client.finishes && !client.run.value.empty();
        if (client.finishes) {
            FinishRun finish;
            finish.run = client.run;
            finish.fence = client.fence;
            return finish;
        }
        client.run = RunId(ids.next());
        AdmitRun admit;
        admit.run = client.run;
        admit.who = attribution(number % agents_);
        admit.node = "local";
        Place& place = admit.places.emplace_back();
        place.host = "local";
        place.path = fmt::format("/srv/{}/{}", loop_, number);
        place.chain = {fmt::format("8:{}", loop_ * 1'000'000 + number), fmt::format("8:{}", 100 + loop_), "8:3", "8:2"};
        admit.lease_s = 3600;
        return admit;
    }

    bool answered(std::size_t number, const engine::SubmitResult& answer) override {
        if (!answer) return false;
        Client& client = clients_[number];
        if (client.finishes) {
            const auto* reply = std::get_if<RunReply>(&answer->reply);
            if (reply == nullptr || reply->status != RunStatus::done) return false;
            ++finished_;
        } else {
            const auto* reply = std::get_if<AdmitReply>(&answer->reply);
            if (reply == nullptr || reply->status != AdmitStatus::admitted) return false;
            client.fence = reply->fence;
            ++admitted_;
        }
        return true;
    }

    std::vector<std::string> differences(store::Snapshot& rows) override {
        Differences differences(rows);
        differences.expect("runs", "select count(*) from runs", admitted_);
        differences.expect("claims of live runs", "select count(*) from claims", admitted_ - finished_);
        return differences.found;
    }

 private:
    struct Client {
        RunId run;
        Fence fence;
        bool finishes = false;  // What it has asked last.
    };
    const std::size_t agents_;
    std::vector<Client> clients_;
    std::size_t loop_ = 0;
    std::int64_t admitted_ = 0;
    std::int64_t finished_ = 0;
};

}  // namespace

Ids::Ids() : count_((std::uint64_t{std::random_device()()} << 32) & ~(1ull << 63)) { set_time(); }
void Ids::set_time() { at_ = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()); }

std::int64_t read_number(store::Snapshot& rows, std::string_view sql) {
    std::int64_t number = -1;
    const auto read = rows.query(sql, [&](const std::vector<store::Value>& values) {
        if (values.empty()) return;
        if (const auto* value = std::get_if<std::int64_t>(&values.front())) number = *value;
        if (std::holds_alternative<std::monostate>(values.front())) number = 0;  // The sum of no rows.
    });
    return read ? number : -1;
}

std::unique_ptr<Workload> charges(std::string name, std::size_t agents) {
    return std::make_unique<Charges>(std::move(name), agents);
}
std::unique_ptr<Workload> holds_and_settles(std::size_t agents) { return std::make_unique<HoldsAndSettles>(agents); }
std::unique_ptr<Workload> appends(std::string name, std::size_t sessions, std::size_t bytes) {
    return std::make_unique<Appends>(std::move(name), sessions, bytes);
}
std::unique_ptr<Workload> runs(std::size_t agents) { return std::make_unique<Runs>(agents); }

}  // namespace interlock::bench
