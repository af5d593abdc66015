// Who hears of every call that has ended: each org's metrics, and the collector that it exports to.
//
//   (1) An org's calls are counted for that org and sent to that org's collector, and to no other.
//   (2) Calls of nobody (a key that is not known) are counted for whoever runs the server.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>

#include "gateway/call_metrics.h"
#include "gateway/otlp_exporter.h"

namespace interlock::gateway {

class CallWatch {
 public:
    struct Options {
        std::function<Instant()> now;
        OtlpSource source = {};
        core::OrgId operator_org = {};  // Of whoever runs the server.
    };
    CallWatch(Options options, Log& log);

    void on_call(const EndedCall& call);
    // From now on. Without a URL: nowhere.
    void export_to(core::OrgId org, const Otlp& where);
    // In Prometheus' text.
    void write(std::string& out, core::OrgId org) const;
    void close();  // Sends what is left to be sent.

 private:
    struct OfOrg {
        CallMetrics metrics;
        std::unique_ptr<OtlpExporter> exporter;  // None until a collector is first named.
    };
    OfOrg& of(core::OrgId org);

    const Options options_;
    Log& log_;
    mutable std::shared_mutex mutex_;  // Of the map and the pointers, not of what they point to.
    std::map<core::OrgId, std::unique_ptr<OfOrg>> orgs_;
};

}  // namespace interlock::gateway
