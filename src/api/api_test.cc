#include "api/api.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "api/feed_tails.h"
#include "api/key_ring.h"
#include "api/metrics.h"
#include "net/worker_pool.h"
#include "store/memory_store.h"

namespace interlock::api {
namespace {

constexpr core::OrgId home{1};

class FakeCommands final : public Commands {
 public:
    void submit(std::vector<engine::Submission> submissions) override {
        for (const engine::Submission& each : submissions) {
            submitted.push_back(each.command);
            each.on_answer(answer);
        }
    }
    Instant now() override { return from_micros(1'800'000'000'000'000); }
    Id fresh_id() override { return {.high = 1, .low = ++last_id_}; }
    std::size_t queue_depth() const override { return 0; }
    std::optional<std::string> block_reason() override { return why_not; }
    Result<std::vector<store::Node>, std::string> nodes() override { return std::vector<store::Node>(); }

    engine::SubmitResult answer = fail(engine::SubmitError::busy);
    std::optional<std::string> why_not;
    std::vector<core::Command> submitted;

 private:
    std::uint64_t last_id_ = 0;
};

class FakeCallers final : public Callers {
 public:
    std::optional<Principal> page_caller(const net::Request&) override { return std::nullopt; }
    net::Task<Sender> sender_of(net::Peer*) override { co_return Sender::outside; }
    net::Task<bool> shares_files(net::Peer*) override { co_return true; }
    std::string login_link(const std::string& key_id) override { return "/login?code=" + key_id; }
    bool keys_are_shared() const override { return when_refreshed != nullptr; }
    void refresh_keys() override { when_refreshed(); }

    std::function<void()> when_refreshed;  // Set: another node makes keys, too.
};

class FakeWorkplaces final : public Workplaces {
 public:
    Result<core::Place, std::string> resolve(const std::string& path, core::ClaimMode mode) override {
        return core::Place{.kind = core::ClaimKind::workspace, .host = {}, .path = path, .chain = {}, .mode = mode};
    }
    void hold(const core::Run&) override {}
    Result<std::vector<std::string>, std::string> repository(const std::string&) override { return fail(none); }
    Result<std::string, std::string> make_worktree(core::RunId, const std::string&) override { return fail(none); }
    Result<WorktreeLook, std::string> look_at_worktree(core::RunId) override { return fail(none); }
    Result<WorktreeRemoval, std::string> remove_worktree(core::RunId, bool) override { return fail(none); }
    Result<void, std::string> restore_worktree(core::RunId) override { return fail(none); }

 private:
    const std::string none = "there is none";
};

class FakeProcesses final : public Processes {
 public:
    Result<LogPiece, std::string> read_log(core::RunId, std::int64_t, std::int64_t) override { return LogPiece{}; }
    std::string issue_shim_secret(core::RunId) override { return "secret"; }
    std::optional<std::string> sandbox_refusal(const core::ProcessSpec&) override { return std::nullopt; }
    core::SandboxLevel sandbox_level(const core::ProcessSpec& process) override { return process.asked_level(); }
};

class FakeModels final : public Models {
 public:
    Result<std::string, BadMember> check_setting(core::OrgId, std::string_view, const std::string&,
                                                 const std::string& document) override {
        return document;
    }
    void settings_changed(core::OrgId) override {}
    Result<std::vector<PriceText>, std::string> prices(core::OrgId, const std::string&) override {
        return std::vector<PriceText>();
    }
    Result<std::optional<PriceText>, std::string> price(core::OrgId, const std::string&, const std::string&) override {
        return std::optional<PriceText>();
    }
    std::vector<std::optional<UsedPrice>> used_prices(core::OrgId, const std::vector<ModelName>& models) override {
        return std::vector<std::optional<UsedPrice>>(models.size());
    }
    Result<std::string, std::string> update_catalog(const std::string&) override { return std::string("{}"); }
    std::vector<UpstreamFacts> upstreams(core::OrgId) override { return {}; }
    void write_metrics(std::string&, core::OrgId) override {}
};

class FakeOperations final : public Operations {
 public:
    Result<std::vector<OrgFacts>, std::string> orgs() override { return std::vector<OrgFacts>(); }
    Result<std::string, std::string> verify() override { return std::string("{}"); }
    LastVerify last_verify() override { return {}; }
    std::vector<SelfFinding> self_check() override { return findings; }
    Result<std::string, std::string> back_up(const std::string&) override { return std::string("{}"); }
    std::optional<std::string> why_not_ready() override { return std::nullopt; }
    engine::EngineStats engine_stats() override { return {}; }
    void write_engine_histograms(std::string&) override {}

    std::vector<SelfFinding> findings;
};

class ApiTest : public testing::Test {
 protected:
    ApiTest() { put_key(); }

    void put_key() {
        keys.put(home, {.id = key.id,
                        .hash = key.hash,
                        .scopes = {"admin"},
                        .agent = {},
                        .run = {},
                        .budget = {},
                        .note = {},
                        .created_at = {},
                        .revoked_at = far_past});
    }

    net::Response ask(net::Method method, std::string path, std::string body = {}) {
        net::Request request;
        request.method = method;
        request.path = std::move(path);
        request.headers = {{"authorization", "Bearer " + key.text}, {"content-type", "application/json"}};
        request.body = std::move(body);
        boost::asio::io_context context(1);
        net::Response response;
        boost::asio::co_spawn(context, api.handle(std::move(request)),
                              [&](std::exception_ptr thrown, net::Response said) {
                                  if (thrown) std::rethrow_exception(thrown);
                                  response = std::move(said);
                              });
        context.run();
        return response;
    }
    net::Response charge(std::string body = R"({"agent":"ada","cost":"0.10"})") {
        return ask(net::Method::post, "/v1/charges", std::move(body));
    }
    std::string metric_lines() const {
        std::string out;
        metrics.write(out);
        return out;
    }

    const NewKey key = make_key();
    FakeCommands commands;
    FakeCallers callers;
    FakeWorkplaces workplaces;
    FakeProcesses processes;
    FakeModels models;
    FakeOperations operations;
    store::MemoryStore store;
    store::ReadPool reads{store};
    net::WorkerPool workers{net::WorkerPool::Options{}};
    FeedTails feeds{reads};
    KeyRing keys;
    Metrics metrics;
    Log log{{.level_min = LogLevel::error,
             .format = LogFormat::text,
             .clock = [] { return far_past; },
             .write = [](std::string_view) {}}};
    Api api{ApiDependencies{.commands = commands,
                            .callers = callers,
                            .workplaces = workplaces,
                            .processes = processes,
                            .models = models,
                            .operations = operations,
                            .reads = reads,
                            .workers = workers,
                            .bodies = workers,
                            .feeds = feeds,
                            .keys = keys,
                            .metrics = metrics,
                            .log = log,
                            .home = home,
                            .facts = {},
                            .host = "host",
                            .node = "node",
                            .worktrees = {}}};
};

TEST_F(ApiTest, a_charge_is_submitted_for_the_org_of_its_key) {
    core::ChargeReply reply;
    reply.status = core::ChargeStatus::charged;
    reply.seq = core::Seq(7);
    commands.answer = engine::CommandResult{reply, false};

    const net::Response response = charge();

    EXPECT_EQ(response.status, 201) << response.body;
    ASSERT_EQ(commands.submitted.size(), 1u);
    EXPECT_EQ(commands.submitted[0].org, home);
    EXPECT_EQ(std::get<core::Charge>(commands.submitted[0].body).cost, Money::nanos(100'000'000));
}

TEST_F(ApiTest, a_refusal_is_counted_under_its_code) {
    core::ChargeReply reply;
    reply.status = core::ChargeStatus::budget_exceeded;
    // A text that looks like a member of the response's JSON is no code.
    reply.detail = R"("code":"of the detail")";
    commands.answer = engine::CommandResult{reply, false};

    EXPECT_EQ(charge().status, 402);
    EXPECT_EQ(charge("{").status, 400);

    EXPECT_NE(metric_lines().find("interlock_refusals_total{code=\"budget_exceeded\"} 1\n"), std::string::npos);
    EXPECT_NE(metric_lines().find("interlock_refusals_total{code=\"invalid_request\"} 1\n"), std::string::npos);
    EXPECT_EQ(metric_lines().find("of the detail"), std::string::npos);
}

TEST_F(ApiTest, nothing_is_answered_while_the_commands_have_an_objection) {
    commands.why_not = "the database forgot";

    const net::Response response = charge();

    EXPECT_EQ(response.status, 503);
    EXPECT_NE(response.body.find("the database forgot"), std::string::npos);
    EXPECT_TRUE(commands.submitted.empty());
}

TEST_F(ApiTest, a_key_that_another_node_made_is_found_after_a_refresh) {
    keys.remove(key.id);
    EXPECT_EQ(ask(net::Method::get, "/v1/doctor").status, 401);
    callers.when_refreshed = [this] { put_key(); };

    EXPECT_EQ(ask(net::Method::get, "/v1/doctor").status, 200);
}

TEST_F(ApiTest, the_doctor_is_not_ok_if_one_finding_fails) {
    operations.findings = {{.level = FindingLevel::warn, .what = "clock", .detail = "slow"}};
    EXPECT_NE(ask(net::Method::get, "/v1/doctor").body.find(R"({"ok":true,)"), std::string::npos);
    operations.findings.push_back({.level = FindingLevel::fail, .what = "disk", .detail = "full"});

    EXPECT_NE(ask(net::Method::get, "/v1/doctor").body.find(R"({"ok":false,)"), std::string::npos);
}

}  // namespace
}  // namespace interlock::api
