// What is stored of this node's runs, as the supervisor reads it. Nothing is cached.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/event.h"
#include "core/rows.h"
#include "store/read_pool.h"

namespace interlock::supervisor {

class RunRows {
 public:
    RunRows(store::ReadPool& reads, core::OrgId org, std::string node)
        : reads_(reads), org_(org), node_(std::move(node)) {}

    struct Unfinished {
        std::vector<core::Run> runs;
        core::Seq head;  // Of the feed, at the same moment.
    };
    // Every supervised run of this node that has not ended, and every live run of a client. Empty: they cannot be read
    // now.
    std::optional<Unfinished> unfinished() const;
    Result<std::optional<core::Run>, store::ReadError> run(core::RunId id) const;
    std::optional<core::Launch> launch(core::RunId id) const;

    struct News {
        std::vector<core::Event> events;
        core::Seq cursor;   // Behind them.
        bool more = false;  // There may be more already.
    };
    // What the feed has behind the cursor. Empty: it cannot be read now.
    std::optional<News> after(core::Seq cursor) const;

 private:
    store::ReadPool& reads_;
    const core::OrgId org_;
    const std::string node_;
};

}  // namespace interlock::supervisor
