// A hold that the core has given for one attempt.
//
//   (1) It ends exactly once: settled by a report, settled at its bound and marked as estimated, or released. A hold
//       that is dropped is settled at its bound.
//   (2) Its lease is extended until then.
#pragma once

#include "core/rows.h"
#include "gateway/settlement.h"

namespace interlock::gateway {

class LedgerClient;

class OpenHold {
 public:
    OpenHold() = default;  // None.
    OpenHold(LedgerClient& ledger, core::OrgId org, core::HoldId id, std::int64_t lease_s, AttemptTerms terms);
    OpenHold(OpenHold&& other) noexcept;
    OpenHold& operator=(OpenHold&& other) noexcept;
    ~OpenHold();

    bool is_open() const { return ledger_ != nullptr; }

    // The three ends. Each needs an open hold, and leaves none.
    Settlement settle(const Metered& reported);
    Settlement settle_at_bound(const Metered& reported);
    void release();

 private:
    Settlement end(Settlement settlement);

    LedgerClient* ledger_ = nullptr;
    core::OrgId org_;
    core::HoldId id_ = {};
    AttemptTerms terms_ = {};
};

}  // namespace interlock::gateway
