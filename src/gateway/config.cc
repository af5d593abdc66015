#include "gateway/config.h"

namespace interlock::gateway {
namespace {

const ModelPrice* assumed_price(const Config& config, Instant at) {
    if (config.settings.unknown_model != UnknownModel::assume) return nullptr;
    const std::string_view name = config.settings.assume_price;
    const std::size_t slash = name.find('/');
    return config.prices.find(name.substr(0, slash), name.substr(slash + 1), at);
}

}  // namespace

const ModelPrice* price_at(const Config& config, const Upstream& upstream, std::string_view model, Instant at) {
    const ModelPrice* found = config.prices.find(upstream.provider, model, at);
    if (found == nullptr) found = config.prices.find(upstream.provider, upstream.model_there(model), at);
    return found != nullptr ? found : assumed_price(config, at);
}

const ModelPrice* price_of(const Config& config, std::string_view provider, std::string_view model, Instant at) {
    if (const ModelPrice* found = config.prices.find(provider, model, at)) return found;
    for (const Upstream& upstream : config.upstreams) {
        if (upstream.provider != provider || !upstream.takes(model)) continue;
        if (const ModelPrice* found = price_at(config, upstream, model, at)) return found;
    }
    return nullptr;
}

}  // namespace interlock::gateway
