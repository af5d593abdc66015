// The gateway in the server: it is given what people have set, the keys of its callers and those of its upstreams.
//
//   (1) What was set on this node holds for every call that begins after the answer; what was set on another, within a
//       second.
//   (2) An upstream's key is read when something is set, and at a start: from the environment, a file or the secrets.
//       One that cannot be read leaves its upstream without: calls to it fail and say so, all others go on. A secret
//       is opened for the host of its upstream or collector, and goes there only if it is bound to that (SecretHosts).
//   (3) Nothing that cannot be understood stops the rest: it is logged and left out.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "api/key_ring.h"
#include "api/ports.h"
#include "base/log.h"
#include "gateway/call_watch.h"
#include "gateway/gateway.h"
#include "net/http_server.h"
#include "net/worker_pool.h"
#include "server/backend.h"
#include "server/sandbox_rules.h"
#include "server/secret_hosts.h"
#include "server/setting_desk.h"
#include "simulated/upstream.h"
#include "store/read_pool.h"

namespace interlock::server {

class GatewayHost {
 public:
    struct Options {
        Backend& backend;
        store::ReadPool& reads;
        net::WorkerPool& workers;
        SettingDesk& desk;
        const api::KeyRing& keys;
        Log& log;
        core::OrgId operator_org;  // Of whoever runs the server.
        std::string node;          // How people call it.
        std::function<net::Task<api::Sender>(net::Peer* peer)> sender_of;
        SandboxRules& sandbox;  // Is told what is set for the operator's org.
        bool simulate = false;  // Carries a simulated provider for the models sim/….
    };
    static Result<std::unique_ptr<GatewayHost>, std::string> start(Options options);
    ~GatewayHost();

    gateway::Gateway& gateway() { return *gateway_; }
    // Reads what is set for the org, and goes by it from now on. Blocks.
    void read_settings(core::OrgId org);
    void read_all_settings();
    // Whether calls in this API format have somewhere to go.
    bool serves(core::OrgId org, gateway::ApiFormat format) const;
    // Whether calls to models are answered there: by an upstream of the org, or a provider that is known.
    bool answers_calls(core::OrgId org, std::string_view host, std::uint16_t port) const;
    // What became of the org's calls and how its upstreams do, in Prometheus' text.
    void write_metrics(std::string& out, core::OrgId org) const;
    // Where the org's calls can go, and how each of these does.
    std::vector<api::UpstreamFacts> upstreams(core::OrgId org) const;
    // By which price calls of each of these models are settled now, if there is one.
    std::vector<std::optional<api::UsedPrice>> used_prices(core::OrgId org,
                                                           const std::vector<api::ModelName>& models) const;
    // Of the price list below what was set: its version and its date.
    std::pair<std::string, std::string> price_list(core::OrgId org) const;
    void close();

 private:
    explicit GatewayHost(Options options);
    Result<void, std::string> simulate();
    // True if this server itself answers what goes to the upstream.
    bool is_simulated(const gateway::Upstream& upstream) const;
    Result<std::vector<core::OrgId>, store::ReadError> orgs();
    // With `reading_` held.
    void read_one(core::OrgId org);
    // Of one org, while its settings are read.
    struct OrgSecrets {
        core::OrgId org;
        const std::vector<core::Setting>& settings;
        SecretHosts hosts;
    };
    std::string key_of(const OrgSecrets& secrets, const gateway::Upstream& upstream);
    std::string secret_of(const OrgSecrets& secrets, const std::string& name, const std::string& host);
    void open_headers(const OrgSecrets& secrets, std::map<std::string, std::string>& headers, const std::string& host);
    void open_otlp(const OrgSecrets& secrets, gateway::Otlp& otlp);
    void store(core::OrgId org, std::vector<core::PutSetting> bindings);
    net::Task<Result<gateway::Gateway::Bounds, std::string>> bounds(gateway::CallPrincipal caller,
                                                                    core::Attribution who);
    void watch();

    const Options options_;
    std::vector<gateway::Upstream> simulated_;
    std::unique_ptr<simulated::SimulatedUpstream> provider_;
    std::unique_ptr<net::HttpServer> provider_server_;
    gateway::CallWatch calls_;
    std::unique_ptr<gateway::Gateway> gateway_;

    std::mutex reading_;                            // One at a time, so that an older reading does not come last.
    std::map<core::OrgId, std::int64_t> versions_;  // The sum of all versions: it grows with every change.
    std::mutex mutex_;
    std::condition_variable stop_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::server
