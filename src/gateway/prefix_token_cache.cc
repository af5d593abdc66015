#include "gateway/prefix_token_cache.h"

#include <algorithm>
#include <utility>

namespace interlock::gateway {

namespace {

// Looking for a known beginning costs more than it brings below this.
constexpr std::size_t cached_prefix_bytes_min = 2'048;

}  // namespace

bool is_prefix_cacheable(const CallRequest& request, std::string_view body) {
    return body.size() >= cached_prefix_bytes_min && !request.boundaries.empty() && !request.count_varies &&
           !request.input_elsewhere && request.rounds == 1 && !request.rounds_unbounded;
}

std::vector<Hash128> prefixes_of(const CallRequest& request, std::string_view body) {
    std::vector<std::size_t> boundaries = request.boundaries;
    for (std::size_t& boundary : boundaries) boundary -= request.messages_begin;
    return prefix_hashes(body.substr(request.messages_begin), boundaries);
}

// Each piece is hashed alone and chained to the one before it, so that all of them cost one pass over the text.
std::vector<Hash128> prefix_hashes(std::string_view text, const std::vector<std::size_t>& boundaries) {
    std::vector<Hash128> hashes;
    hashes.reserve(boundaries.size());
    struct {
        Hash128 before, piece;
        std::uint64_t bytes;
    } link{};
    std::size_t begin = 0;
    for (const std::size_t end : boundaries) {
        link.piece = keyed_hash_128(text.substr(begin, end - begin));
        link.bytes = end - begin;
        link.before = keyed_hash_128({reinterpret_cast<const char*>(&link), sizeof link});
        hashes.push_back(link.before);
        begin = end;
    }
    return hashes;
}

std::optional<PrefixTokenCache::Found> PrefixTokenCache::find(const std::vector<Hash128>& names) {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = names.size(); at-- > 0;) {
        for (Generation* generation : {&young_, &old_}) {
            const auto found = generation->find(names[at]);
            if (found == generation->end()) continue;
            const std::int64_t tokens = found->second;
            if (generation == &old_) put_locked(names[at], tokens);
            return Found{at, tokens};
        }
    }
    return std::nullopt;
}

void PrefixTokenCache::put(const Hash128& name, std::int64_t prompt_tokens) {
    const std::lock_guard lock(mutex_);
    put_locked(name, prompt_tokens);
}

void PrefixTokenCache::put_locked(const Hash128& name, std::int64_t prompt_tokens) {
    if (young_.size() >= generation_max) old_ = std::exchange(young_, {});
    // The greater number is the safe one: what a provider hides in a prompt may differ from call to call.
    std::int64_t& kept = young_[name];
    kept = std::max(kept, prompt_tokens);
}

}  // namespace interlock::gateway
