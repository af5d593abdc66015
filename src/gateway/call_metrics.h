// What became of an org's calls, counted for Prometheus.
//
//   (1) Labels are bounded in number. Operations and refusals are words of ours, providers are set by people; names of
//       models come from clients, so that only so many of them are kept apart, and the others count as "other".
//   (2) A model has a place among these only once it has used something: refused names take none.
//
// Added to by any thread. Counted since the process began: who wants more asks the ledger.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "base/histogram.h"
#include "core/rows.h"
#include "gateway/upstream_selector.h"

namespace interlock::gateway {

class CallMetrics {
 public:
    static constexpr std::size_t models_max = 200;     // Of all providers together.
    static constexpr std::size_t providers_max = 100;  // A name may come and go with every setting.

    void count(const core::ModelCall& call);
    void write(std::string& out) const;

 private:
    // Operation, provider, class of status, refusal.
    using Kind = std::tuple<std::string, std::string, std::string, std::string>;
    using Model = std::tuple<std::string, std::string>;  // Provider and model.
    struct OfProvider {
        OfProvider();
        Histogram first_byte;
        Histogram duration;
        std::uint64_t attempts = 0;
    };
    struct OfModel {
        Usage usage = {};
        std::int64_t cost = 0;  // Nano-dollars.
    };
    std::string_view provider_name(const core::ModelCall& call) const;
    OfModel& of_model(std::string_view provider, std::string_view model);

    mutable std::mutex mutex_;
    std::map<Kind, std::uint64_t, std::less<>> calls_;
    std::map<std::string, OfProvider, std::less<>> providers_;
    std::map<Model, OfModel, std::less<>> models_;
    std::size_t models_apart_ = 0;
    std::uint64_t estimated_ = 0;
    std::uint64_t unpriced_ = 0;
    std::uint64_t cache_hits_ = 0;
};

// How the upstreams do.
void write_health(std::string& out, const std::map<std::string, UpstreamSelector::Health>& health, net::SteadyTime now);

// A name that others can read, and "other" for one that is not text: what a client sends may be any bytes.
std::string_view readable_name(std::string_view name);

}  // namespace interlock::gateway
