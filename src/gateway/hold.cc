#include "gateway/hold.h"

#include <utility>

#include "base/ensure.h"
#include "gateway/ledger_client.h"

namespace interlock::gateway {

Hold::Hold(LedgerClient& ledger, core::OrgId org, core::HoldId id, std::int64_t lease_s, AttemptTerms terms)
    : ledger_(&ledger), org_(org), id_(id), terms_(std::move(terms)) {
    ledger.keep_alive(org, id, lease_s);
}

Hold::Hold(Hold&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      org_(other.org_),
      id_(other.id_),
      terms_(std::move(other.terms_)) {}

Hold& Hold::operator=(Hold&& other) noexcept {
    Hold ended(std::move(*this));
    ledger_ = std::exchange(other.ledger_, nullptr);
    org_ = other.org_;
    id_ = other.id_;
    terms_ = std::move(other.terms_);
    return *this;
}

Hold::~Hold() {
    if (is_open()) settle_at_bound({});
}

Settlement Hold::settle(const Metered& reported) { return end(settlement_by(terms_, reported)); }

Settlement Hold::settle_at_bound(const Metered& reported) { return end(settlement_at_bound(terms_, reported)); }

void Hold::release() {
    ensure(is_open(), "invariant (1): a hold ends once");
    std::exchange(ledger_, nullptr)->release(org_, id_);
}

Settlement Hold::end(Settlement settlement) {
    ensure(is_open(), "invariant (1): a hold ends once");
    std::exchange(ledger_, nullptr)->settle(org_, id_, settlement);
    return settlement;
}

}  // namespace interlock::gateway
