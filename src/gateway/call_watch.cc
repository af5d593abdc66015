#include "gateway/call_watch.h"

#include <mutex>

#include "base/prometheus.h"

namespace interlock::gateway {

CallWatch::CallWatch(Options options, Log& log) : options_(std::move(options)), log_(log) { of(options_.operator_org); }

void CallWatch::on_call(const EndedCall& call) {
    const core::OrgId org = call.org == core::OrgId() ? options_.operator_org : call.org;
    std::shared_lock lock(mutex_);
    auto found = orgs_.find(org);
    if (found == orgs_.end()) {
        lock.unlock();
        {
            const std::unique_lock change(mutex_);
            of(org);
        }
        lock.lock();
        found = orgs_.find(org);
    }
    found->second->metrics.count(call.row);
    if (call.org == org && found->second->exporter) found->second->exporter->add(call);
}

void CallWatch::export_to(core::OrgId org, const Otlp& where) {
    const std::unique_lock lock(mutex_);
    OfOrg& its = of(org);
    if (!its.exporter) {
        if (where.url.empty()) return;
        its.exporter =
            std::make_unique<OtlpExporter>(OtlpExporter::Options{.now = options_.now, .source = options_.source}, log_);
    }
    its.exporter->configure(where);
}

void CallWatch::write(std::string& out, core::OrgId org) const {
    const std::shared_lock lock(mutex_);
    const auto found = orgs_.find(org);
    if (found == orgs_.end()) return;
    found->second->metrics.write(out);
    const OtlpStats stats = found->second->exporter ? found->second->exporter->stats() : OtlpStats();
    write_metric(out, "interlock_gateway_otlp_spans_sent_total", "counter", "Spans that the collector has taken.",
                 stats.sent);
    write_metric(out, "interlock_gateway_otlp_spans_dropped_total", "counter",
                 "Spans that were dropped: the queue was full, or the collector refused them.", stats.dropped);
    write_metric(out, "interlock_gateway_otlp_failures_total", "counter", "Requests that the collector did not take.",
                 stats.failures);
    write_metric(out, "interlock_gateway_otlp_spans_queued", "gauge", "Spans that wait for the collector.",
                 stats.queued);
}

void CallWatch::close() {
    const std::shared_lock lock(mutex_);
    for (const auto& [org, its] : orgs_) {
        if (its->exporter) its->exporter->close();
    }
}

CallWatch::OfOrg& CallWatch::of(core::OrgId org) {
    std::unique_ptr<OfOrg>& its = orgs_[org];
    if (!its) its = std::make_unique<OfOrg>();
    return *its;
}

}  // namespace interlock::gateway
