// A question to the store that grows: every condition brings its own parameter, behind the org's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "store/store.h"

namespace interlock::api {

struct SqlQuery {
    std::string sql = {};
    std::vector<store::Parameter> parameters = {};

    void where(std::string_view condition, store::Parameter parameter) {
        parameters.push_back(std::move(parameter));
        sql += fmt::format("and {} ${} ", condition, parameters.size() + 1);
    }
    void in_order(std::string_view columns, std::int64_t most) {
        parameters.push_back(most);
        sql += fmt::format("order by {} limit ${}", columns, parameters.size() + 1);
    }
};

}  // namespace interlock::api
