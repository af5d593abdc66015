#include "gateway/open_hold.h"

#include <utility>

#include "base/ensure.h"
#include "gateway/ledger_client.h"

namespace interlock::gateway {

OpenHold::OpenHold(LedgerClient& ledger, core::OrgId org, core::HoldId id, std::int64_t lease_s, AttemptTerms terms)
    : ledger_(&ledger), org_(org), id_(id), terms_(std::move(terms)) {
    ledger.keep_alive(org, id, lease_s);
}

OpenHold::OpenHold(OpenHold&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      org_(other.org_),
      id_(other.id_),
      terms_(std::move(other.terms_)) {}

OpenHold& OpenHold::operator=(OpenHold&& other) noexcept {
    OpenHold ended(std::move(*this));
    ledger_ = std::exchange(other.ledger_, nullptr);
    org_ = other.org_;
    id_ = other.id_;
    terms_ = std::move(other.terms_);
    return *this;
}

OpenHold::~OpenHold() {
    if (is_open()) settle_at_bound({});
}

Settlement OpenHold::settle(const Metered& reported) { return end(settlement_by(terms_, reported)); }

Settlement OpenHold::settle_at_bound(const Metered& reported) { return end(settlement_at_bound(terms_, reported)); }

void OpenHold::release() {
    ensure(is_open(), "invariant (1): a hold ends once");
    std::exchange(ledger_, nullptr)->release(org_, id_);
}

Settlement OpenHold::end(Settlement settlement) {
    ensure(is_open(), "invariant (1): a hold ends once");
    std::exchange(ledger_, nullptr)->settle(org_, id_, settlement);
    return settlement;
}

}  // namespace interlock::gateway
