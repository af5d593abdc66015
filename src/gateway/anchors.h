// What providers have said about the beginnings of conversations: how many tokens a prompt was.
//
//   (1) A number that is found was reported by a provider for a request to the same model that began with the same
//       bytes. Whatever follows these bytes is to be counted on its own.
//   (2) Memory is bounded: what was not asked for in a long time is forgotten.
//
// Agents send nearly all of a conversation again with every call. Without anchors each of these bytes would count as a
// token each time.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace interlock::gateway {

// One number per boundary, each standing for everything before it. `seed` says whose and which model's it is.
std::vector<std::uint64_t> prefix_hashes(std::uint64_t seed, std::string_view body,
                                         const std::vector<std::size_t>& boundaries);

class Anchors {
 public:
    static constexpr std::size_t generation_max = 50'000;

    struct Found {
        std::size_t boundary = 0;  // Which of them.
        std::int64_t prompt_tokens = 0;
    };
    // The longest beginning that is known.
    std::optional<Found> find(const std::vector<std::uint64_t>& hashes);
    void put(std::uint64_t hash, std::int64_t prompt_tokens);

 private:
    // Two generations: what is used moves to the young one, and the old one is dropped when the young one is full.
    using Generation = std::unordered_map<std::uint64_t, std::int64_t>;
    void put_locked(std::uint64_t hash, std::int64_t prompt_tokens);

    std::mutex mutex_;
    Generation young_;
    Generation old_;
};

}  // namespace interlock::gateway
