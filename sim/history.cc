#include "sim/history.h"

#include <cstring>

#include <fmt/format.h>

#include "base/codec.h"

namespace interlock::sim {

bool read_events(const std::string& body, std::vector<core::Event>& events) {
    std::size_t at = 0;
    while (at < body.size()) {
        std::uint32_t length = 0;
        if (body.size() - at < sizeof length) return false;
        std::memcpy(&length, body.data() + at, sizeof length);
        at += sizeof length;
        if (body.size() - at < length) return false;
        auto event = decode<core::Event>(std::string_view(body).substr(at, length));
        if (!event) return false;
        events.push_back(std::move(*event));
        at += length;
    }
    return true;
}

void History::read(const store::MemoryDatabase& rows, Findings& findings) {
    const auto& pages = rows.rows<core::FeedPage>();
    for (const auto& [org_key, org] : rows.rows<core::Org>()) {
        const core::OrgId id = org_key.first;
        std::vector<core::Event>& events = events_[id];
        auto page = pages.upper_bound({id, core::Seq(static_cast<std::int64_t>(events.size()))});
        for (; page != pages.end() && page->first.first == id; ++page) {
            if (!read_events(page->second.body, events)) {
                return findings.violated(Promise::unbroken_feed, fmt::format("org {} feed page {} cannot be read",
                                                                             id.value, page->second.last_seq.value));
            }
            if (static_cast<std::int64_t>(events.size()) != page->second.last_seq.value) {
                return findings.violated(Promise::unbroken_feed,
                                         fmt::format("org {} feed page {} ends with event {}", id.value,
                                                     page->second.last_seq.value, events.size()));
            }
        }
    }
}

const std::vector<core::Event>& History::of(core::OrgId org) const {
    static const std::vector<core::Event> none;
    const auto found = events_.find(org);
    return found == events_.end() ? none : found->second;
}

}  // namespace interlock::sim
