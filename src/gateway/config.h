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

}  // namespace interlock::gateway
