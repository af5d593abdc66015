#include "api/attribution.h"

#include <fmt/format.h>

#include "core/org_state.h"
#include "store/read_rows.h"

namespace interlock::api {
net::Task<std::optional<Problem>> check_budget(Call& call, core::Attribution who) {
    if (call.caller.budget.empty()) co_return std::nullopt;
    const core::OrgId org = call.caller.org;
    const std::string name = call.caller.budget;
    const auto budget = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Budget>(snapshot, org, name); });
    if (!budget) co_return budget.error();
    if (*budget && !(*budget)->deleted && core::covers((*budget)->scope, who)) co_return std::nullopt;
    co_return Problem{.status = 403,
                      .code = "forbidden",
                      .detail = fmt::format("the key is bound to budget '{}', which does not cover this", name)};
}

}  // namespace interlock::api
