// Answers that are given again: the same request, word for word, from the same org and agent.
// With the same headers, as far as they reach the provider.
//
//   (1) Only what was asked to be kept, and what ended as the dialect ends a good answer, is kept.
//   (2) An answer is given again for its time to live and no longer; sizes and their sum are bounded.
//
// In this process's memory only.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/by_text.h"
#include "net/task.h"

namespace interlock::gateway {

struct CachedAnswer {
    std::string content_type;
    std::string body;
    bool streamed = false;
};

class ResponseCache {
 public:
    static constexpr std::size_t answer_bytes_max = 2u << 20;
    static constexpr std::size_t bytes_max = 128u << 20;

    // A name that no other request has.
    static std::string name_of(std::string_view org_and_agent, std::string_view target, std::string_view headers,
                               std::string_view body);

    std::shared_ptr<const CachedAnswer> find(const std::string& name, net::SteadyTime now);
    void put(const std::string& name, CachedAnswer answer, net::SteadyTime until);

 private:
    struct Entry {
        std::string name;
        std::shared_ptr<const CachedAnswer> answer;
        net::SteadyTime until;
    };
    using Entries = std::list<Entry>;  // The one asked for last comes first.
    void drop(Entries::iterator entry);

    std::mutex mutex_;
    Entries entries_;
    ByText<Entries::iterator> by_name_;
    std::size_t bytes_ = 0;
};

}  // namespace interlock::gateway
