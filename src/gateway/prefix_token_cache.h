// What providers have said about the beginnings of conversations: how many tokens a prompt was.
//
//   (1) A number that is found was reported by a provider for a prompt that is the beginning of this one: by the same
//       agent, to the same upstream and model, with the same headers and the same members outside of the messages, as
//       far as any of these can change the count, and with the same first messages, byte for byte. Only the messages
//       that follow are to be counted on their own.
//   (2) Names are hashes with a secret key: no one can make another prompt that has the same name.
//   (3) Memory is bounded: what was not asked for in a long time is forgotten.
//
// Agents send nearly all of a conversation again with every call. Without these counts each of these bytes would count
// as a token each time. Which members and headers can change a count is said in call_request_prompt.cc and
// gateway_call.cc.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "gateway/call_request.h"

namespace interlock::gateway {

// Whether a count of this prompt, or of its beginning, says something about another one; and one number for each
// message, which stands for all messages up to it.
bool is_prefix_cacheable(const CallRequest& request, std::string_view body);
std::vector<Hash128> prefixes_of(const CallRequest& request, std::string_view body);

// One per boundary, each standing for all of `text` before it. The boundaries rise and lie within the text.
std::vector<Hash128> prefix_hashes(std::string_view text, const std::vector<std::size_t>& boundaries);

class PrefixTokenCache {
 public:
    static constexpr std::size_t generation_max = 50'000;

    struct Found {
        std::size_t boundary = 0;  // Which of them.
        std::int64_t prompt_tokens = 0;
    };
    // The longest beginning that is known.
    std::optional<Found> find(const std::vector<Hash128>& names);
    void put(const Hash128& name, std::int64_t prompt_tokens);

 private:
    // Two generations: what is used moves to the young one, and the old one is dropped when the young one is full.
    using Generation = std::unordered_map<Hash128, std::int64_t>;
    void put_locked(const Hash128& name, std::int64_t prompt_tokens);

    std::mutex mutex_;
    Generation young_;
    Generation old_;
};

}  // namespace interlock::gateway
