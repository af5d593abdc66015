#include "server/gateway_host.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "base/prometheus.h"
#include "core/org_state.h"
#include "core/settings.h"
#include "gateway/provider_hosts.h"
#include "server/version.h"
#include "store/read_rows.h"

namespace interlock::server {
namespace {

constexpr std::chrono::milliseconds watch_interval{500};
constexpr std::size_t key_bytes_max = 16u << 10;

std::string trimmed(std::string text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
    return text;
}

// Of a plain file only: nothing here waits for somebody at the other end of a pipe.
std::string file_text(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return {};
    std::string text(key_bytes_max, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
    return trimmed(std::move(text));
}

std::optional<std::int64_t> milliseconds(const Histogram& seconds, double share) {
    const auto found = seconds.quantile(share);
    if (!found) return std::nullopt;
    return std::llround(*found * 1000);
}

void put_hour(api::UpstreamFacts& facts, const gateway::LastHour::Sums& hour) {
    facts.calls = hour.calls;
    facts.errors = hour.errors;
    facts.first_byte_ms_p50 = milliseconds(hour.first_byte, 0.5);
    facts.first_byte_ms_p95 = milliseconds(hour.first_byte, 0.95);
    facts.duration_ms_p50 = milliseconds(hour.duration, 0.5);
    facts.duration_ms_p95 = milliseconds(hour.duration, 0.95);
    for (const auto& minute : hour.minutes) facts.minutes.push_back({minute.at, minute.calls, minute.errors});
}

}  // namespace

GatewayHost::GatewayHost(Options options)
    : options_(std::move(options)),
      calls_({.now = [&backend = options_.backend] { return backend.now(); },
              .source = {version, options_.node},
              .operator_org = options_.operator_org},
             options_.log) {
    Backend& backend = options_.backend;
    gateway_ = std::make_unique<gateway::Gateway>(
        gateway::Gateway::Parts{
            .submit = [&backend](std::vector<engine::Submission> commands) { backend.submit(std::move(commands)); },
            .now = [&backend] { return backend.now(); },
            .fresh_id = [&backend] { return backend.fresh_id(); },
            .caller = [this](std::string_view key) -> std::optional<gateway::Caller> {
                const auto caller = options_.keys.find(key);
                if (!caller) return std::nullopt;
                return gateway::Caller{caller->org, caller->key_id, caller->may(api::Access::act),    caller->agent,
                                       caller->run, caller->budget, caller->may(api::Access::operate)};
            },
            .bounds = [this](gateway::Caller caller,
                             core::Attribution who) { return bounds(std::move(caller), std::move(who)); },
            .block_reason = [&backend] { return backend.block_reason(); },
            .refuse_operator = [this](const net::Request& request) -> net::Task<std::optional<gateway::No>> {
                const auto problem = api::problem_of(co_await options_.sender_of(request.sender));
                if (!problem) co_return std::nullopt;
                co_return gateway::No{gateway::Refused::unauthorized, problem->code, problem->detail};
            },
            .on_call = [this](const gateway::EndedCall& call) { calls_.on_call(call); }},
        options_.log);
}

Result<std::unique_ptr<GatewayHost>, std::string> GatewayHost::start(Options options) {
    std::unique_ptr<GatewayHost> host(new GatewayHost(std::move(options)));
    if (host->options_.simulate) {
        if (auto started = host->simulate(); !started) return fail(started.error());
    }
    host->read_all_settings();
    host->thread_ = std::thread([raw = host.get()] { raw->watch(); });
    return host;
}

GatewayHost::~GatewayHost() { close(); }

void GatewayHost::close() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    stop_.notify_all();
    if (thread_.joinable()) thread_.join();
    gateway_->close();
    calls_.close();
    provider_server_.reset();
}

Result<void, std::string> GatewayHost::simulate() {
    provider_ = std::make_unique<gateway::SimulatedUpstream>(gateway::SimulatedUpstreamOptions{});
    provider_server_ = std::make_unique<net::HttpServer>(
        net::HttpServerOptions{.threads = 1},
        [this](net::Request request) { return provider_->answer(std::move(request)); }, options_.log);
    const auto port = provider_server_->start();
    if (!port) return fail("the simulated provider cannot listen: " + port.error().detail);
    for (const char* dialect : {"openai", "anthropic", "gemini"}) {
        auto upstream = gateway::upstream_from(
            fmt::format("sim-{}", dialect),
            fmt::format(R"({{"dialect":"{}","url":"http://127.0.0.1:{}","provider":"sim","models":["sim/*"],)"
                        R"("priority":0,"pass_headers":["x-sim"]}})",
                        dialect, *port));
        if (!upstream) return fail(to_sentence(upstream.error()));
        simulated_.push_back(std::move(*upstream));
    }
    return {};
}

Result<std::vector<core::OrgId>, store::ReadError> GatewayHost::orgs() {
    return options_.reads.with([](store::Snapshot& snapshot) -> Result<std::vector<core::OrgId>, store::ReadError> {
        std::vector<core::OrgId> found;
        // The server's own org comes first: its settings say what others may reach.
        const auto read =
            snapshot.query("select org from orgs order by org", [&](const std::vector<store::Value>& values) {
                found.emplace_back(static_cast<std::uint32_t>(std::get<std::int64_t>(values[0])));
            });
        if (!read) return fail(read.error());
        return found;
    });
}

void GatewayHost::read_all_settings() {
    const auto all = orgs();
    if (!all) return options_.log.warn("settings_not_read", {{"why", all.error().detail}});
    for (const core::OrgId org : *all) read_settings(org);
}

void GatewayHost::read_settings(core::OrgId org) {
    const std::lock_guard lock(reading_);
    const auto private_orgs = [&] {
        const auto config = gateway_->config_of(options_.operator_org);
        return config ? config->settings.private_orgs : std::vector<std::string>();
    };
    const std::vector<std::string> before = private_orgs();
    read_one(org);
    if (org != options_.operator_org || private_orgs() == before) return;
    const auto all = orgs();
    if (!all) return options_.log.warn("settings_not_read", {{"why", all.error().detail}});
    for (const core::OrgId other : *all) {
        if (other != org) read_one(other);
    }
}

void GatewayHost::read_one(core::OrgId org) {
    const auto rows = options_.reads.with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::Setting>(snapshot, org, "order by kind, name");
    });
    if (!rows) return options_.log.warn("settings_not_read", {{"why", rows.error().detail}});
    auto book = options_.desk.book(org);
    if (!book) options_.log.error("prices_not_read", {{"why", book.error()}});
    // The catalog's prices may be lower than those that were set: better to go on by what was read before.
    if (!book && gateway_->config_of(org)) return;

    auto config = std::make_shared<gateway::Config>(
        gateway::Config{{}, {}, book ? std::move(*book) : gateway::PriceBook({}), {}, {}});
    std::optional<gateway::SandboxSettings> sandbox = gateway::SandboxSettings();
    std::int64_t versions = 0;
    const auto left_out = [&](const core::Setting& row, const gateway::BadDocument& bad) {
        options_.log.error("setting_left_out", {{"kind", row.kind}, {"name", row.name}, {"why", to_sentence(bad)}});
    };
    for (const core::Setting& row : *rows) {
        versions += row.version;
        if (row.dropped) continue;
        if (row.kind == core::upstream_setting) {
            auto upstream = gateway::upstream_from(row.name, row.document);
            if (!upstream) {
                left_out(row, upstream.error());
                continue;
            }
            config->upstreams.push_back(std::move(*upstream));
        } else if (row.kind == core::rate_limit_setting) {
            auto limit = gateway::rate_limit_from(row.name, row.document);
            limit ? config->limits.push_back(std::move(*limit)) : left_out(row, limit.error());
        } else if (row.kind == core::gateway_setting) {
            auto settings = gateway::gateway_settings_from(row.document);
            settings ? void(config->settings = std::move(*settings)) : left_out(row, settings.error());
        } else if (row.kind == core::sandbox_setting) {
            auto settings = gateway::sandbox_settings_from(row.document);
            if (!settings) left_out(row, settings.error());
            sandbox = settings ? std::optional(std::move(*settings)) : std::nullopt;
        }
    }
    if (org == options_.operator_org && sandbox) options_.sandbox.set(std::move(*sandbox));
    OrgSecrets secrets{org, *rows, SecretHosts(*rows)};
    store(org, secrets.hosts.bind(config->upstreams, config->settings.otlp));
    const bool public_only = !options_.desk.reaches_private(org);
    for (gateway::Upstream& upstream : config->upstreams) {
        if (std::string key = key_of(secrets, upstream); !key.empty()) config->keys[upstream.name] = std::move(key);
        open_headers(secrets, upstream.headers, host_text(upstream.origin.host, upstream.origin.port));
        upstream.origin.public_only = public_only;
    }
    open_otlp(secrets, config->settings.otlp);
    config->settings.otlp.public_only = public_only;
    config->upstreams.insert(config->upstreams.end(), simulated_.begin(), simulated_.end());
    for (gateway::Upstream& upstream : config->upstreams) {
        upstream.origin.pool = fmt::format("{}/{}", org.value, upstream.name);
    }
    versions_[org] = versions;
    calls_.export_to(org, config->settings.otlp);
    gateway_->configure(org, std::move(config));
}

std::string GatewayHost::key_of(const OrgSecrets& secrets, const gateway::Upstream& upstream) {
    if (!may_use(secrets.org, upstream.key)) return {};
    switch (upstream.key.from) {
        case gateway::KeyFrom::none:
            return {};
        case gateway::KeyFrom::env: {
            const char* value = std::getenv(upstream.key.name.c_str());
            return value != nullptr ? trimmed(value) : std::string();
        }
        case gateway::KeyFrom::file:
            return file_text(upstream.key.name);
        case gateway::KeyFrom::secret:
            return secret_of(secrets, upstream.key.name, host_text(upstream.origin.host, upstream.origin.port));
    }
    return {};
}

std::string GatewayHost::secret_of(const OrgSecrets& secrets, const std::string& name, const std::string& host) {
    for (const core::Setting& row : secrets.settings) {
        if (row.kind != core::secret_setting || row.name != name || row.dropped) continue;
        auto secret =
            options_.desk.secrets().open(secrets.org, row.name, row.document, host, secrets.hosts.of(row.name));
        if (secret) return trimmed(std::move(*secret));
        options_.log.error("secret_not_opened", {{"name", row.name}, {"why", secret.error()}});
    }
    return {};
}

// Documents are shown to keys of scope read; "secret:NAME" in a header's place keeps the rest of it to itself. A
// header whose secret is not there, or may not go there, is not sent.
void GatewayHost::open_headers(const OrgSecrets& secrets, std::map<std::string, std::string>& headers,
                               const std::string& host) {
    for (auto header = headers.begin(); header != headers.end();) {
        if (const auto name = secret_named_in(header->second)) header->second = secret_of(secrets, *name, host);
        header = header->second.empty() ? headers.erase(header) : std::next(header);
    }
}

void GatewayHost::open_otlp(const OrgSecrets& secrets, gateway::Otlp& otlp) {
    const auto url = net::parse_url(otlp.url);
    if (!url) return;
    if (!gateway::is_confidential(otlp)) {
        // Set before this was refused. What calls cost goes on; keys do not.
        std::erase_if(otlp.headers, [](const auto& header) { return secret_named_in(header.second).has_value(); });
        options_.log.warn("otlp_in_the_clear", {{"url", otlp.url}});
    }
    open_headers(secrets, otlp.headers, host_text(url->host, url->port));
}

// Not waited for: what could not be stored is bound in the same way at the next reading.
void GatewayHost::store(core::OrgId org, std::vector<core::PutSetting> bindings) {
    std::vector<engine::Submission> submissions;
    for (core::PutSetting& binding : bindings) {
        engine::Submission& one = submissions.emplace_back();
        one.command.org = org;
        one.command.key = core::CommandKey(options_.backend.fresh_id());
        one.on_answer = [&log = options_.log, name = binding.name](const engine::SubmitResult& answer) {
            if (answer) log.info("secret_bound", {{"secret", name}});
        };
        one.command.body = std::move(binding);
    }
    if (!submissions.empty()) options_.backend.submit(std::move(submissions));
}

bool GatewayHost::serves(core::OrgId org, gateway::Dialect dialect) const {
    const auto config = gateway_->config_of(org);
    return config && std::ranges::any_of(config->upstreams, [&](const gateway::Upstream& upstream) {
               return upstream.enabled && upstream.dialect == dialect && !upstream.name.starts_with("sim-");
           });
}

bool GatewayHost::answers_calls(core::OrgId org, std::string_view host, std::uint16_t port) const {
    if (gateway::is_provider_host(host)) return true;
    const auto config = gateway_->config_of(org);
    return config && std::ranges::any_of(config->upstreams, [&](const gateway::Upstream& upstream) {
               return upstream.origin.host == host && upstream.origin.port == port;
           });
}

net::Task<Result<gateway::Gateway::Bounds, std::string>> GatewayHost::bounds(gateway::Caller caller,
                                                                             core::Attribution who) {
    struct Named {
        std::optional<core::Run> run;
        std::optional<core::Budget> budget;
        std::optional<core::Session> session;
    };
    store::ReadPool& reads = options_.reads;
    const auto named = co_await net::run_on(options_.workers, [&reads, caller, who] {
        return reads.with([&](store::Snapshot& snapshot) -> Result<Named, store::ReadError> {
            auto run = store::read_row<core::Run>(snapshot, caller.org, who.run.value);
            if (!run) return fail(run.error());
            auto budget = store::read_row<core::Budget>(snapshot, caller.org, caller.budget);
            if (!budget) return fail(budget.error());
            auto session = store::read_row<core::Session>(snapshot, caller.org, who.session.value);
            if (!session) return fail(session.error());
            return Named{std::move(*run), std::move(*budget), std::move(*session)};
        });
    });
    if (!named) co_return fail(std::string("what this key may do cannot be read at present"));
    gateway::Gateway::Bounds bounds{.agent = who.agent};
    if (bounds.agent.empty() && named->run) bounds.agent = named->run->who.agent;
    bounds.run_is_live = who.run.value.empty() || (named->run && !core::has_ended(named->run->state));
    const bool is_bound = !caller.agent.empty() || !caller.run.value.empty() || !caller.budget.empty();
    const bool session_is_mine =
        who.session.value.empty() || !is_bound || (named->session && named->session->agent == bounds.agent);
    if (!session_is_mine) co_return fail(std::string("there is no such session for this key"));
    if (caller.budget.empty()) co_return bounds;
    if (!named->budget || named->budget->deleted) {
        co_return fail(fmt::format("the key is bound to budget '{}', which is not there any more", caller.budget));
    }
    bounds.scope = named->budget->scope;
    co_return bounds;
}

void GatewayHost::write_metrics(std::string& out, core::OrgId org) const {
    calls_.write(out, org);
    gateway::write_health(out, gateway_->health(org), std::chrono::steady_clock::now());
    write_metric(out, "interlock_gateway_calls_under_way", "gauge", "Calls that have not ended yet.",
                 static_cast<std::uint64_t>(gateway_->under_way()));
    write_metric(
        out, "interlock_gateway_io_read_bytes_total", "counter",
        "Bytes of bodies and answers that were read on threads of connections; the others are read by workers.",
        gateway_->bytes_read_on_io());
    write_metric(out, "interlock_gateway_worker_read_bytes_total", "counter",
                 "Bytes of large bodies and answers that were read by workers.", gateway_->bytes_read_on_workers());
}

std::vector<api::UpstreamFacts> GatewayHost::upstreams(core::OrgId org) const {
    const auto config = gateway_->config_of(org);
    if (!config) return {};
    const auto health = gateway_->health(org);
    const auto hours = gateway_->last_hour(org);
    const auto steady = std::chrono::steady_clock::now();
    const Instant now = options_.backend.now();
    std::vector<api::UpstreamFacts> all;
    for (const gateway::Upstream& upstream : config->upstreams) {
        const bool keyed = upstream.key.from != gateway::KeyFrom::none;
        const char* from = boost::describe::enum_to_string(upstream.key.from, "");
        api::UpstreamFacts facts{
            .name = upstream.name,
            .dialect = boost::describe::enum_to_string(upstream.dialect, ""),
            .url = upstream.url,
            .provider = upstream.provider,
            .key = {keyed ? fmt::format(R"({{"{}":{}}})", from, api::to_json(upstream.key.name)) : "{}"},
            .models = upstream.models,
            .priority = upstream.priority,
            .weight = upstream.weight,
            .enabled = upstream.enabled,
            .simulated =
                std::ranges::any_of(simulated_, [&](const gateway::Upstream& own) { return own.url == upstream.url; }),
            .key_found = !keyed || config->keys.contains(upstream.name),
            .failing_since = far_past,
            .cooling_until = far_past,
            .last_error = {},
            .first_byte_ms_p50 = {},
            .first_byte_ms_p95 = {},
            .duration_ms_p50 = {},
            .duration_ms_p95 = {},
            .minutes = {}};
        if (const auto hour = hours.find(upstream.name); hour != hours.end()) put_hour(facts, hour->second);
        if (const auto found = health.find(upstream.name); found != health.end()) {
            const gateway::Fleet::Health& its = found->second;
            facts.failures_in_a_row = its.failures_in_a_row;
            facts.failing_since = its.failing_since;
            if (!its.last_failure.empty()) facts.last_error = its.last_failure;
            if (its.cooling_until > steady) {
                facts.cooling_until = now + std::chrono::duration_cast<Duration>(its.cooling_until - steady);
            }
        }
        facts.state = facts.cooling_until != far_past ? api::UpstreamState::cooling
                      : facts.calls == 0              ? api::UpstreamState::idle
                      : facts.failures_in_a_row > 0   ? api::UpstreamState::failing
                                                      : api::UpstreamState::healthy;
        all.push_back(std::move(facts));
    }
    return all;
}

std::vector<std::optional<api::UsedPrice>> GatewayHost::used_prices(core::OrgId org,
                                                                    const std::vector<api::ModelName>& models) const {
    const auto config = gateway_->config_of(org);
    const Instant now = options_.backend.now();
    std::vector<std::optional<api::UsedPrice>> prices;
    for (const api::ModelName& name : models) {
        const gateway::ModelPrice* found =
            config ? gateway::price_of(*config, name.provider, name.model, now) : nullptr;
        if (found == nullptr) {
            prices.emplace_back();
            continue;
        }
        const bool set = found->version.starts_with("set-");
        prices.push_back(api::UsedPrice{.name = found->provider + "/" + found->model,
                                        .document = gateway::to_json(*found),
                                        .version = found->version,
                                        .list_date = set ? "" : config->prices.date()});
    }
    return prices;
}

std::pair<std::string, std::string> GatewayHost::price_list(core::OrgId org) const {
    const auto config = gateway_->config_of(org);
    if (!config) return {};
    return {config->prices.version(), config->prices.date()};
}

// What other nodes set, and what could not be read when it was set.
void GatewayHost::watch() {
    std::unique_lock lock(mutex_);
    while (!stop_.wait_for(lock, watch_interval, [this] { return stopping_; })) {
        lock.unlock();
        std::map<core::OrgId, std::int64_t> seen;
        (void)options_.reads.with([&](store::Snapshot& snapshot) -> Result<int, store::ReadError> {
            const auto read = snapshot.query(
                "select orgs.org, coalesce(sum(version), 0) from orgs left join settings on settings.org = orgs.org "
                "group by orgs.org",
                [&](const std::vector<store::Value>& values) {
                    seen[core::OrgId(static_cast<std::uint32_t>(std::get<std::int64_t>(values[0])))] =
                        std::get<std::int64_t>(values[1]);
                });
            if (!read) return fail(read.error());
            return 0;
        });
        for (const auto& [org, versions] : seen) {
            bool known = false;
            {
                const std::lock_guard reading(reading_);
                const auto found = versions_.find(org);
                known = found != versions_.end() && found->second == versions;
            }
            if (!known) read_settings(org);
        }
        lock.lock();
    }
}

}  // namespace interlock::server
