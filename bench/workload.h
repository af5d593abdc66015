// What the clients do: each asks one command, waits for its answer, and asks the next.
//
//   (1) next() is called by the driver's thread, answered() by the target's; for one client never at the same time.
//   (2) What answered() has counted is what the store must hold: differences() compares the two.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/command.h"
#include "engine/engine.h"
#include "store/store.h"

namespace interlock::bench {

// Time-ordered ids that rise from call to call. Two processes do not get the same ones.
class Ids {
 public:
    Ids();
    void set_time();  // Reads the clock; between two calls ids only count.
    Id next() { return time_ordered_id(at_, 0, ++count_); }

 private:
    Instant at_;
    std::uint64_t count_ = 0;
};

class Workload {
 public:
    virtual ~Workload() = default;
    virtual std::string_view name() const = 0;

    // What must have been carried out before the first client begins.
    virtual std::vector<core::CommandBody> setup(Ids& ids) = 0;
    // Says how many clients there will be. They begin anew, the rows of earlier ones stay.
    virtual void begin(std::size_t clients) = 0;
    virtual core::CommandBody next(std::size_t client, Ids& ids) = 0;
    // False when the client was refused, which no workload here expects.
    virtual bool answered(std::size_t client, const engine::SubmitResult& answer) = 0;

    // Where the rows disagree with the answers, in words; empty: nowhere.
    virtual std::vector<std::string> differences(store::Snapshot& rows) = 0;
};

std::unique_ptr<Workload> charges(std::string name, std::size_t agents);
std::unique_ptr<Workload> holds_and_settles(std::size_t agents);
std::unique_ptr<Workload> appends(std::string name, std::size_t sessions, std::size_t bytes);
std::unique_ptr<Workload> runs(std::size_t agents);

// One number of a one-row answer; -1 (which no count or sum here can be) when the query fails.
std::int64_t read_number(store::Snapshot& rows, std::string_view sql);

}  // namespace interlock::bench
