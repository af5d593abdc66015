#include "gateway/dialect.h"

#include <algorithm>
#include <array>

#include "base/ensure.h"

namespace interlock::gateway {
namespace {

// A model's name is forwarded as a part of a path, so it must not lead out of its folder, however it is encoded.
bool leads_elsewhere(std::string_view model) {
    return model.find("..") != std::string_view::npos || model.find('\\') != std::string_view::npos;
}

}  // namespace

std::span<const Dialect* const> all_dialects() {
    static const std::array<const Dialect*, 4> all{&openai_chat(), &openai_responses(), &anthropic(), &gemini()};
    return all;
}

const Dialect& dialect_of(ApiFormat format, Operation operation) {
    for (const Dialect* dialect : all_dialects()) {
        if (dialect->format() == format && dialect->serves(operation)) return *dialect;
    }
    return dialect_of(format);
}

const Dialect& dialect_of(ApiFormat format) {
    const auto all = all_dialects();
    const auto found = std::ranges::find(all, format, &Dialect::format);
    ensure(found != all.end(), "every format has a dialect");
    return **found;
}

std::string_view provider_at(ApiFormat format, std::string_view host) {
    for (const Dialect* dialect : all_dialects()) {
        if (dialect->home().host == host) return dialect->home().provider;
    }
    for (const Dialect* dialect : all_dialects()) {
        if (const std::string_view provider = dialect->provider_at(host); !provider.empty()) return provider;
    }
    return dialect_of(format).home().provider;
}

bool take_prefix(std::string_view& path, std::string_view prefix) {
    if (!path.starts_with(prefix)) return false;
    if (path.size() > prefix.size() && path[prefix.size()] != '/') return false;
    path.remove_prefix(prefix.size());
    return true;
}

std::string_view noun_of(std::string_view path) {
    if (!take_prefix(path, "/v1") || path.empty()) return {};
    return path.substr(1, std::min(path.find('/', 1), path.size()) - 1);
}

std::optional<Endpoint> models_endpoint(std::string_view path) {
    if (!take_prefix(path, "/models")) return std::nullopt;
    Endpoint endpoint{.operation = Operation::models, .method = net::Method::get};
    if (path.empty()) return endpoint;

    const auto segments = net::path_segments(path);
    if (!segments || segments->empty() || path.ends_with('/')) return std::nullopt;
    endpoint.model = segments->front();
    for (std::size_t i = 1; i < segments->size(); ++i) endpoint.model.append("/").append((*segments)[i]);
    if (leads_elsewhere(endpoint.model)) return std::nullopt;
    return endpoint;
}

}  // namespace interlock::gateway
