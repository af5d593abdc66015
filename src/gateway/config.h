// What the gateway goes by, as it stands at one moment. Made anew when somebody sets something; a call keeps the one it
// began with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gateway/prices.h"
#include "gateway/settings.h"

namespace interlock::gateway {

struct Config {
    std::vector<Upstream> upstreams;
    std::map<std::string, std::string> keys;  // By the upstream's name. What could not be found is not in it.
    PriceBook prices;
    std::vector<RateLimit> limits;
    GatewaySettings settings;
};

// What a call of this model costs at that upstream: by the name that was asked for, by the upstream's own name for it,
// or what is assumed for models without a price. Null: not known. It lives as long as the configuration.
const ModelPrice* price_at(const Config& config, const Upstream& upstream, std::string_view model, Instant at);
// The same, where all that is known is whose model it is.
const ModelPrice* price_of(const Config& config, std::string_view provider, std::string_view model, Instant at);

}  // namespace interlock::gateway
