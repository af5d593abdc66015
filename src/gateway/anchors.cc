#include "gateway/anchors.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace interlock::gateway {

std::vector<std::uint64_t> prefix_hashes(std::uint64_t seed, std::string_view body,
                                         const std::vector<std::size_t>& boundaries) {
    std::vector<std::uint64_t> hashes;
    hashes.reserve(boundaries.size());
    std::uint64_t so_far = seed;
    std::size_t begin = 0;
    for (const std::size_t end : boundaries) {
        const std::uint64_t piece = std::hash<std::string_view>{}(body.substr(begin, end - begin));
        so_far = (so_far ^ piece ^ (so_far << 17) ^ (end - begin)) * 0x9E3779B97F4A7C15ull;
        so_far ^= so_far >> 29;
        hashes.push_back(so_far);
        begin = end;
    }
    return hashes;
}

std::optional<Anchors::Found> Anchors::find(const std::vector<std::uint64_t>& hashes) {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = hashes.size(); at-- > 0;) {
        for (Generation* generation : {&young_, &old_}) {
            const auto found = generation->find(hashes[at]);
            if (found == generation->end()) continue;
            const std::int64_t tokens = found->second;
            if (generation == &old_) put_locked(hashes[at], tokens);
            return Found{at, tokens};
        }
    }
    return std::nullopt;
}

void Anchors::put(std::uint64_t hash, std::int64_t prompt_tokens) {
    const std::lock_guard lock(mutex_);
    put_locked(hash, prompt_tokens);
}

void Anchors::put_locked(std::uint64_t hash, std::int64_t prompt_tokens) {
    if (young_.size() >= generation_max) old_ = std::exchange(young_, {});
    // The greater number is the safe one: what a provider hides in a prompt may differ from call to call.
    std::int64_t& kept = young_[hash];
    kept = std::max(kept, prompt_tokens);
}

}  // namespace interlock::gateway
