#include "server/server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>
#include <boost/describe/enum_from_string.hpp>

#include "api/api.h"
#include "api/feed_tails.h"
#include "api/key_ring.h"
#include "api/metrics.h"
#include "engine/embedded.h"
#include "gateway/forwarding.h"
#include "net/body_reads.h"
#include "net/http_server.h"
#include "net/worker_pool.h"
#include "server/api_callers.h"
#include "server/api_models.h"
#include "server/api_operations.h"
#include "server/api_processes.h"
#include "server/api_workplaces.h"
#include "server/backend.h"
#include "server/data_dir.h"
#include "server/engine_watch.h"
#include "server/gateway_host.h"
#include "server/key_watch.h"
#include "server/logins.h"
#include "server/node.h"
#include "server/open_files.h"
#include "server/output_ask.h"
#include "server/page.h"
#include "server/run_keys.h"
#include "server/run_proxy.h"
#include "server/sandbox_rules.h"
#include "server/sealed_runs.h"
#include "server/sender_check.h"
#include "server/setting_desk.h"
#include "server/version.h"
#include "shim/undumpable.h"
#include "store/read_pool.h"
#include "store/read_rows.h"
#include "supervisor/host_facts.h"
#include "supervisor/place.h"
#include "supervisor/repository_view.h"
#include "supervisor/supervisor.h"

namespace interlock::server {
namespace {

std::string host_name() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

net::Task<net::Response> page_ready(net::Response response) { co_return response; }

bool is_loopback(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string url_of(const ServerOptions& options, std::uint16_t port) {
    const bool anywhere = options.host == "0.0.0.0" || options.host == "::";
    const std::string host = anywhere                                      ? "127.0.0.1"
                             : options.host.find(':') != std::string::npos ? "[" + options.host + "]"
                                                                           : options.host;
    return fmt::format("{}://{}:{}", options.tls_cert.empty() ? "http" : "https", host, port);
}

std::vector<std::string> environment_of_this_process() {
    std::vector<std::string> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
    return environment;
}

}  // namespace

// The org of those who run the server. Only in it are processes started.
constexpr core::OrgId home = engine::Embedded::default_org;

// In the order they are built; destroyed in the other.
struct Server::Parts {
    Parts(ServerOptions its_options, Log& its_log) : options(std::move(its_options)), log(its_log) {}

    ServerOptions options;
    Log& log;
    EngineWatch watch;
    std::atomic<api::FeedTails*> tails_to_tell = nullptr;
    std::atomic<supervisor::Supervisor*> supervisor_to_tell = nullptr;
    std::unique_ptr<Backend> engine;
    std::unique_ptr<store::ReadPool> reads;
    std::unique_ptr<net::WorkerPool> workers;
    std::unique_ptr<SenderCheck> senders;
    std::unique_ptr<api::FeedTails> feeds;
    api::KeyRing keys;
    std::unique_ptr<KeyWatch> key_watch;
    RunKeys run_keys{home, keys};
    SandboxRules sandbox;
    std::unique_ptr<RunProxy> proxy;
    SealedRuns sealed_runs{
        [this](core::RunId run, net::Request request) { return proxy->answer(run, std::move(request)); }, log};
    std::unique_ptr<SettingDesk> settings;
    std::unique_ptr<supervisor::WorktreeKeeper> worktree_keeper;
    std::unique_ptr<supervisor::ShimSecrets> shim_secrets;
    std::unique_ptr<GatewayHost> gateway;
    std::unique_ptr<net::WorkerPool> blocking;  // For git, and for killing what does not want to die.
    std::unique_ptr<supervisor::HeldPlaces> held_places;
    // For file systems of users, which may never answer. A look at where a run is to begin waits for the looks at what
    // is held, so they do not share threads.
    std::unique_ptr<net::WorkerPool> following, looking;
    std::unique_ptr<supervisor::Supervisor> supervisor;
    api::Metrics metrics;
    std::unique_ptr<Logins> logins;
    std::unique_ptr<ApiCallers> callers;
    std::unique_ptr<ApiWorkplaces> workplaces;
    std::unique_ptr<ApiProcesses> processes;
    std::unique_ptr<ApiModels> models;
    std::unique_ptr<ApiOperations> operations;
    std::unique_ptr<api::Api> api;
    std::unique_ptr<net::WorkerPool> bodies;  // What it does uses the API.
    std::unique_ptr<net::HttpServer> http;
    std::string url;
    core::Place worktrees;
    bool keeps_admin_key = false;
    bool note_written = false;

    Result<void, std::string> open_engine();
    Result<void, std::string> find_worktrees();
    Result<void, std::string> load_keys();
    Result<void, std::string> let_browsers_in();
    Result<void, std::string> listen();
    Result<void, std::string> supervise();
    Duration time_off();
    api::ApiDependencies api_dependencies();
    Result<void, std::string> note_lost_keys(const std::vector<store::SealKey>& known);
    // Empty where nobody else makes keys.
    std::function<void()> refresh_keys() {
        return engine->shared() ? [this] { (void)key_watch->read_on(); } : std::function<void()>();
    }
    net::Task<std::optional<net::BodyOwner>> body_owner(const net::Request& head);
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<Server>, std::string> Server::start(ServerOptions options, Log& log) {
    if (!is_loopback(options.host) && options.tls_cert.empty() && !options.insecure) {
        return fail(
            fmt::format("cannot listen on {} without TLS, because API keys would cross the network unencrypted; pass "
                        "--tls-cert and --tls-key, or --insecure if a proxy provides TLS",
                        options.host));
    }
    if (options.tls_cert.empty() != options.tls_key.empty()) {
        return fail(std::string("--tls-cert and --tls-key must be given together"));
    }
    if (auto made = make_data_dir(options.data_dir); !made) return fail(made.error());
    if (supervisor::is_in_a_run_of(options.data_dir)) {
        return fail(
            fmt::format("this program belongs to a run of {}; start the server of that directory outside of its "
                        "runs",
                        options.data_dir));
    }
    if (options.node_name.empty()) options.node_name = host_name();
    if (options.socket.empty()) options.socket = options.data_dir + "/api.sock";
    auto parts = std::make_unique<Parts>(std::move(options), log);
    if (auto opened = parts->open_engine(); !opened) return fail(opened.error());
    if (auto found = parts->find_worktrees(); !found) return fail(found.error());
    if (auto loaded = parts->load_keys(); !loaded) return fail(loaded.error());
    if (auto ready = parts->let_browsers_in(); !ready) return fail(ready.error());
    if (auto listening = parts->listen(); !listening) return fail(listening.error());
    if (auto supervising = parts->supervise(); !supervising) return fail(supervising.error());
    shim::become_undumpable();
    return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::~Server() {
    if (parts_->note_written) remove_server_note(parts_->options.data_dir, ::getpid());
    // Nobody asks any more, then nobody commits any more; only now can those go who are told of it.
    parts_->sealed_runs.serve_by(nullptr);
    parts_->http.reset();
    parts_->gateway->close();
    parts_->supervisor->close();  // It stays, like the tail, for as long as somebody commits.
    parts_->blocking.reset();
    parts_->looking.reset();
    parts_->following.reset();
    parts_->key_watch.reset();
    parts_->engine->stop();
}

const std::string& Server::url() const { return parts_->url; }
std::string Server::login_link() { return parts_->callers->login_link(api::local_id(::geteuid())); }
bool Server::keeps_admin_key() const { return parts_->keeps_admin_key; }

Result<std::string, std::string> Server::make_admin_key(const std::string& note) {
    const api::NewKey made = api::make_key();
    const auto answer = parts_->engine->ask(core::CreateKey{made.id, made.hash, {"admin"}, {}, {}, {}, note});
    const auto* reply = answer ? std::get_if<core::KeyReply>(&answer->reply) : nullptr;
    if (reply == nullptr || reply->status != core::KeyStatus::done) return fail(std::string("cannot create a key"));
    if (auto read = parts_->key_watch->read_on(); !read) return fail(read.error().detail);
    return made.text;
}

void Server::drain(std::chrono::milliseconds timeout) {
    parts_->log.info("draining");
    const bool all = parts_->http->drain(timeout);
    parts_->log.info("drained", {{"cut", std::int64_t{all ? 0 : 1}}});
}

Result<void, std::string> Server::Parts::open_engine() {
    BackendOptions how;
    how.data_dir = options.data_dir;
    how.store = options.store;
    how.node_name = options.node_name;
    how.accept_clock = options.accept_clock;
    std::error_code ignored;
    const std::string memory = options.store.empty() ? head_path(options.data_dir) : history_path(options.data_dir);
    const bool new_here =
        !std::filesystem::exists(seal_key_path(options.data_dir), ignored) || !std::filesystem::exists(memory, ignored);
    const auto sealing = seal_keys(options.data_dir, api::make_secret());
    if (!sealing) return fail(sealing.error());
    how.seal_key = sealing->front();
    how.peer_ca = options.peer_ca;
    how.lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.node_lease_s));
    how.on_step = [this](const engine::BatchStats& step) {
        if (step.stats.failed_commits > watch.stats().failed_commits) {
            log.error("commit_failed",
                      {{"why", step.stats.last_failure}, {"commands", static_cast<std::int64_t>(step.commands)}});
        }
        watch.on_step(step);
    };
    how.on_news = [this](std::optional<core::OrgId> org, News news) {
        api::FeedTails* told = tails_to_tell.load(std::memory_order_acquire);
        if (told != nullptr) told->committed(org);
        supervisor::Supervisor* also = supervisor_to_tell.load(std::memory_order_acquire);
        const bool concerns = news == News::about_anything && org.value_or(home) == home;
        if (also != nullptr && concerns) also->on_commit();
    };
    auto opened = open_backend(std::move(how), log);
    if (!opened) return fail(opened.error());
    engine = std::move(*opened);
    reads = std::make_unique<store::ReadPool>(engine->store());
    if (new_here) {
        if (auto noted = note_lost_keys(*sealing); !noted) return noted;
    }
    workers = std::make_unique<net::WorkerPool>(net::WorkerPool::Options{});
    bodies = std::make_unique<net::WorkerPool>(net::body_workers);
    senders = std::make_unique<SenderCheck>(*workers);
    settings = std::make_unique<SettingDesk>(options.data_dir, *reads);
    feeds = std::make_unique<api::FeedTails>(*reads);
    tails_to_tell.store(feeds.get(), std::memory_order_release);
    return {};
}

Result<void, std::string> Server::Parts::find_worktrees() {
    const std::string path = options.data_dir + "/worktrees";
    std::error_code error;
    std::filesystem::create_directories(path + "/.locks", error);
    supervisor::RepositoryView::keep_in(path + "/.views");
    auto place = supervisor::resolve_workspace(path, core::ClaimMode::write, supervisor::this_host());
    if (!place) return fail(place.error().detail);
    worktrees = std::move(*place);
    shim_secrets = std::make_unique<supervisor::ShimSecrets>(options.data_dir);
    held_places = std::make_unique<supervisor::HeldPlaces>(supervisor::HeldPlaces::Hooks{
        .restate = [this](core::RestatePlaces command) -> std::optional<core::RunReply> {
            const auto answer = engine->ask(std::move(command));
            const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr;
            return reply == nullptr ? std::nullopt : std::optional(*reply);
        },
        .elsewhere = [this](std::function<void()> work) { return following->submit(std::move(work)); }});
    worktree_keeper = std::make_unique<supervisor::WorktreeKeeper>(
        supervisor::WorktreeKeeper::Options{.org = home,
                                            .node = options.node_name,
                                            .lock_dir = path + "/.locks",
                                            .data_dir = options.data_dir,
                                            .environment = environment_of_this_process(),
                                            .sandbox = [this] { return sandbox.policy(); },
                                            .hidden = {options.data_dir, options.socket},
                                            .reads = *reads,
                                            .ask = [this](core::CommandBody body) { return engine->ask(body); }});
    // Twenty agents that wake at once would otherwise all start at once.
    const auto cap = reads->with([&](store::Snapshot& snapshot) {
        return store::read_rows<core::Cap>(snapshot, home, "and kind = 'node' and name = $2", {options.node_name});
    });
    if (cap && cap->empty()) {
        (void)engine->ask(core::SetCap{core::CapKind::node, options.node_name, supervisor::default_runs_max()});
    }
    blocking = std::make_unique<net::WorkerPool>(net::WorkerPool::Options{.threads = 4, .queue_max = 100'000});
    following = std::make_unique<net::WorkerPool>(net::WorkerPool::Options{.threads = 2, .queue_max = 100'000});
    looking = std::make_unique<net::WorkerPool>(net::WorkerPool::Options{.threads = 4, .queue_max = 100'000});
    return {};
}

Result<void, std::string> Server::Parts::load_keys() {
    key_watch = std::make_unique<KeyWatch>(*reads, keys, [this] { return engine->now(); });
    if (auto read = key_watch->read_on(); !read) return fail("the keys cannot be read: " + read.error().detail);
    if (engine->shared()) key_watch->start();
    for (const uid_t user : {::geteuid(), uid_t{0}}) keys.admit_user(home, user);

    // Versions before this one made it, and other programs may still use it.
    const auto kept = keys.find(read_admin_key(options.data_dir).value_or(""));
    keeps_admin_key = kept.has_value();
    if (kept) {
        log.warn("admin_key_kept",
                 {{"file", options.data_dir + "/admin.key"},
                  {"why", "every program of this user can read it, and the command line does not need it"},
                  {"do", fmt::format("interlock keys revoke {}, then remove the file", kept->key_id)}});
    }
    return {};
}

Result<void, std::string> Server::Parts::let_browsers_in() {
    auto secret = run_secret(options.data_dir, api::make_secret());
    if (!secret) return fail(secret.error());
    logins = std::make_unique<Logins>(Logins::Options{.secret = std::move(*secret),
                                                      .keys = keys,
                                                      .refresh_keys = refresh_keys(),
                                                      .workers = *workers,
                                                      .now = [this] { return engine->now(); },
                                                      .log = log});
    return {};
}

// The key that a request shows, wherever its client puts it. What the key allows is decided when the body is there.
net::Task<std::optional<net::BodyOwner>> Server::Parts::body_owner(const net::Request& head) {
    // What nodes forward was counted for its owner at the other node.
    if (engine->is_of_a_node(head)) co_return net::BodyOwner{"nodes", net::HttpServerOptions().body_bytes_all_max};
    std::string key = sealed_runs.key_of(head).value_or(std::string(gateway::key_in(head, {})));
    const auto query = net::query_pairs(head.query);
    if (key.empty() && query) {
        for (const auto& [name, value] : *query) {
            if (name == "key") key = value;
        }
    }
    auto caller = key.empty() ? logins->caller(head) : keys.find(key);
    const auto refresh = refresh_keys();
    if (!caller && !key.empty() && refresh) {
        co_await net::run_on(*workers, refresh);
        caller = keys.find(key);
    }
    if (!caller) co_return std::nullopt;
    co_return net::BodyOwner{caller->key_id};
}

Result<void, std::string> Server::Parts::listen() {
    net::HttpServerOptions how;
    how.host = options.host;
    how.port = options.port;
    how.threads = options.threads;
    how.connections_max = std::min<std::size_t>(how.connections_max, connections_possible());
    how.local_path = options.socket;
    // In the data directory no other user gets to it.
    if (options.socket != options.data_dir + "/api.sock") {
        how.local_users = [this](std::uint32_t user) { return keys.user(user).has_value(); };
    }
    if (!options.tls_cert.empty()) how.tls = net::TlsFiles{options.tls_cert, options.tls_key};
    // A page elsewhere that has its name point here must not be able to speak to us through somebody's browser.
    // Beyond this machine it is told its names, or takes any.
    how.allowed_hosts = options.allowed_hosts;
    if (is_loopback(options.host) || !options.allowed_hosts.empty()) {
        for (const char* name : {"localhost", "127.0.0.1", "::1", "[::1]"}) how.allowed_hosts.push_back(name);
        how.allowed_hosts.push_back(options.host);
    }
    sandbox.start(options.sandbox_default, options.sandbox_minimum, options.data_dir);
    how.body_owner = [this](const net::Request& head) { return body_owner(head); };
    auto hosted = GatewayHost::start({.backend = *engine,
                                      .reads = *reads,
                                      .workers = *workers,
                                      .desk = *settings,
                                      .keys = keys,
                                      .log = log,
                                      .operator_org = engine::Embedded::default_org,
                                      .node = options.node_name,
                                      .sender_of = [this](net::Peer* peer) { return senders->of(peer); },
                                      .sandbox = sandbox,
                                      .simulate = options.simulate_models});
    if (!hosted) return fail(hosted.error());
    gateway = std::move(*hosted);
    proxy = std::make_unique<RunProxy>(RunProxy::Options{
        .org = home,
        .submit = [this](std::vector<engine::Submission> commands) { engine->submit(std::move(commands)); },
        .fresh_id = [this] { return engine->fresh_id(); },
        .reads = *reads,
        .workers = *workers,
        .answers_calls = [this](std::string_view host,
                                std::uint16_t port) { return gateway->answers_calls(home, host, port); },
        // A run that came back by the server's own address would not be known as a run.
        .may_be_private =
            [this](std::string_view host, std::uint16_t port) {
                return sandbox.may_be_private(host, port) && !url.ends_with(fmt::format(":{}", port));
            },
        .log = log});
    url = url_of(options, options.port);
    api = std::make_unique<api::Api>(api_dependencies());
    http = std::make_unique<net::HttpServer>(
        std::move(how),
        [this](net::Request request) -> net::Task<net::Response> {
            if (auto answer = sealed_runs.answer(request)) return std::move(*answer);
            if (auto answer = engine->answer(request)) return std::move(*answer);
            if (auto answer = gateway->gateway().answer(request)) return std::move(*answer);
            if (auto answer = logins->answer(request)) return std::move(*answer);
            if (auto answer = answer_page(request)) return page_ready(std::move(*answer));
            return api->handle(std::move(request));
        },
        log);
    const auto port = http->start();
    if (port) sealed_runs.serve_by(http.get());
    if (!port) {
        return fail(
            port.error().kind == net::ListenError::Kind::address_in_use
                ? fmt::format("{}:{} is in use, perhaps by another server; choose another address with --listen",
                              options.host, options.port)
                : port.error().detail);
    }
    url = url_of(options, *port);
    api->set_address(url);
    engine->set_url(options.advertise.empty() ? url : options.advertise);
    if (auto written =
            write_server_note(options.data_dir, {url, ::getpid(), process_start(::getpid()), options.socket});
        !written) {
        return fail(written.error());
    }
    note_written = true;
    return {};
}

// Between the last commit before this start and now, as the clock says.
Duration Server::Parts::time_off() {
    const Instant before = engine->stored_before();
    return before == far_past ? Duration(0) : std::max(Duration(0), engine->now() - before);
}

Result<void, std::string> Server::Parts::supervise() {
    if (auto loaded = run_keys.load(options.data_dir); !loaded) return fail(loaded.error());
    const supervisor::SandboxPolicy levels = sandbox.policy();
    if (!levels.no_guarded.empty()) log.warn("no_sandbox", {{"why", levels.no_guarded}});
    auto started = supervisor::Supervisor::start(
        {.org = home,
         .node = options.node_name,
         .data_dir = options.data_dir,
         .url = [this] { return url; },
         .environment = environment_of_this_process(),
         .submit = [this](std::vector<engine::Submission> commands) { engine->submit(std::move(commands)); },
         .reads = *reads,
         .worktrees = *worktree_keeper,
         .secrets = *shim_secrets,
         .held = *held_places,
         .elsewhere = [this](std::function<void()> work) { return blocking->submit(std::move(work)); },
         .look = [this](std::function<void()> work) { return looking->submit(std::move(work)); },
         .open_key =
             [this](const core::Run& run) {
                 std::string key = run_keys.open(run);
                 sealed_runs.open(run.id, key);
                 return key;
             },
         .close_key =
             [this](core::RunId run) {
                 sealed_runs.close(run);
                 run_keys.close(run);
             },
         .open_entrance = [this](core::RunId run,
                                 shim::Fd entrance) { sealed_runs.open_entrance(run, std::move(entrance)); },
         .log = log,
         .off_for = time_off(),
         .open_files = options.open_files_of_runs,
         .memory_pressure_max = options.memory_pressure_max,
         .gateway =
             [this](std::string_view dialect) {
                 gateway::ApiFormat speaks{};
                 return boost::describe::enum_from_string(std::string(dialect).c_str(), speaks) &&
                        gateway->serves(home, speaks);
             },
         .sandbox = [this] { return sandbox.policy(); },
         .socket = options.socket,
         .output_tokens =
             [this](const core::Run& run) { return affordable_output(*reads, home, run, engine->now()); }});
    if (!started) return fail(started.error());
    supervisor = std::move(*started);
    supervisor_to_tell.store(supervisor.get(), std::memory_order_release);
    supervisor->on_commit();
    return {};
}

// A store that comes from elsewhere, such as a restored backup, has seals that nothing here can check. A key that is
// not known later on is another matter.
Result<void, std::string> Server::Parts::note_lost_keys(const std::vector<store::SealKey>& known) {
    auto ids = reads->with([&](store::Snapshot& snapshot) -> Result<std::vector<std::string>, store::ReadError> {
        std::vector<std::string> unknown;
        const auto read =
            snapshot.query("select key_id from seals union select seal_key from feed_pages where seal_number > 0",
                           [&](const std::vector<store::Value>& row) {
                               const auto& id = std::get<std::string>(row.front());
                               if (std::ranges::find(known, id, &store::SealKey::id) == known.end())
                                   unknown.push_back(id);
                           });
        if (!read) return fail(read.error());
        return unknown;
    });
    if (!ids) return fail("the store cannot be read: " + ids.error().detail);
    if (ids->empty()) return {};
    log.warn("seals_of_another_key", {{"keys", static_cast<std::int64_t>(ids->size())}});
    return add_lost_seal_keys(options.data_dir, *ids);
}

api::ApiDependencies Server::Parts::api_dependencies() {
    const Instant started_at = engine->now();
    callers = std::make_unique<ApiCallers>(ApiCallers::Options{
        .logins = *logins, .senders = *senders, .keys = *key_watch, .keys_are_shared = engine->shared(), .url = url});
    workplaces = std::make_unique<ApiWorkplaces>(*held_places, *worktree_keeper);
    processes = std::make_unique<ApiProcesses>(ApiProcesses::Options{.home = home,
                                                                     .data_dir = options.data_dir,
                                                                     .shim_secrets = *shim_secrets,
                                                                     .sandbox = sandbox,
                                                                     .gateway = *gateway});
    models = std::make_unique<ApiModels>(*engine, *settings, *gateway);
    operations =
        std::make_unique<ApiOperations>(ApiOperations::Options{.home = home,
                                                               .started_at = started_at,
                                                               .data_dir = options.data_dir,
                                                               .embedded = options.store.empty(),
                                                               .memory_pressure_max = options.memory_pressure_max,
                                                               .backend = *engine,
                                                               .reads = *reads,
                                                               .engine = watch,
                                                               .sandbox = sandbox,
                                                               .gateway = *gateway,
                                                               .supervisor = supervisor_to_tell});
    return {.commands = *engine,
            .callers = *callers,
            .workplaces = *workplaces,
            .processes = *processes,
            .models = *models,
            .operations = *operations,
            .reads = *reads,
            .workers = *workers,
            .bodies = *bodies,
            .feeds = *feeds,
            .keys = keys,
            .metrics = metrics,
            .log = log,
            .home = home,
            .facts = {.version = version,
                      .store = options.store.empty() ? "sqlite" : "postgres",
                      .data_dir = options.data_dir,
                      .address = url,
                      .started_at = started_at},
            .host = supervisor::this_host(),
            .node = options.node_name,
            .worktrees = worktrees};
}

}  // namespace interlock::server
