// The feed as its readers have it: every event of every org, in order, decoded once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/event.h"
#include "sim/findings.h"
#include "store/memory_database.h"

namespace interlock::sim {

// The events in a page's body; the frames are taken apart here, not by core/feed.h. False when they do not fit.
bool read_events(const std::string& body, std::vector<core::Event>& events);

class History {
 public:
    // Reads the pages that have come since the last time.
    void read(const store::MemoryDatabase& rows, Findings& findings);

    // The event with number n is at n - 1.
    const std::vector<core::Event>& of(core::OrgId org) const;

    template <class Kind>
    static const Kind* at(const std::vector<core::Event>& events, std::int64_t seq) {
        if (seq < 1 || seq > static_cast<std::int64_t>(events.size())) return nullptr;
        return std::get_if<Kind>(&events[static_cast<std::size_t>(seq - 1)]);
    }

 private:
    std::map<core::OrgId, std::vector<core::Event>> events_;
};

}  // namespace interlock::sim
