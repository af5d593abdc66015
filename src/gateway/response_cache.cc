#include "gateway/response_cache.h"

#include <fmt/format.h>

#include "base/sha256.h"

namespace interlock::gateway {

std::string ResponseCache::name_of(std::string_view org_and_agent, std::string_view target, std::string_view headers,
                                   std::string_view body) {
    const std::string text =
        fmt::format("{}\n{}\n{}\n{}\n{}", org_and_agent, target, headers.size(), body.size(), headers);
    const auto digest = sha256(text + std::string(body));
    return std::string(digest.begin(), digest.end());
}

std::shared_ptr<const CachedAnswer> ResponseCache::find(const std::string& name, net::SteadyTime now) {
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    if (found->second->until <= now) {
        drop(found->second);
        return nullptr;
    }
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->answer;
}

void ResponseCache::put(const std::string& name, CachedAnswer answer, net::SteadyTime until) {
    if (answer.body.size() > answer_bytes_max) return;
    const std::lock_guard lock(mutex_);
    if (const auto found = by_name_.find(name); found != by_name_.end()) drop(found->second);
    bytes_ += answer.body.size();
    entries_.push_front({name, std::make_shared<const CachedAnswer>(std::move(answer)), until});
    by_name_[name] = entries_.begin();
    while (bytes_ > bytes_max) drop(std::prev(entries_.end()));
}

void ResponseCache::drop(Entries::iterator entry) {
    bytes_ -= entry->answer->body.size();
    by_name_.erase(entry->name);
    entries_.erase(entry);
}

}  // namespace interlock::gateway
