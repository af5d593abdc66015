// Rows for people: whole rows out of a snapshot, always of one org.
//
//   (1) Every question is asked about one org: there is no way to leave it out.
//   (2) Nothing read here decides anything; the rules load their rows through Store.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/describe/enum_from_string.hpp>

#include "base/codec.h"
#include "store/columns.h"
#include "store/row_json.h"
#include "store/store.h"

namespace interlock::store {

// False when the value is not one of the member's type.
template <class T>
bool read_value(const Value& value, T& member) {
    const auto* number = std::get_if<std::int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    if constexpr (is_id<T>) {
        member = T{};
        if (text == nullptr) return number == nullptr;
        if (text->size() != 16) return false;
        std::uint64_t halves[2];
        std::memcpy(halves, text->data(), sizeof halves);
        member = T(Id{__builtin_bswap64(halves[0]), __builtin_bswap64(halves[1])});
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        member = text != nullptr ? *text : std::string();
        return number == nullptr;
    } else if constexpr (std::is_same_v<T, Instant>) {
        if (number != nullptr) member = from_micros(*number);
        return number != nullptr;
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        return read_value(value, member.value);
    } else if constexpr (std::is_enum_v<T>) {
        return text != nullptr && boost::describe::enum_from_string(text->c_str(), member);
    } else if constexpr (std::is_integral_v<T>) {
        if (number == nullptr) return false;
        member = static_cast<T>(*number);
        return static_cast<std::int64_t>(member) == *number;
    } else {
        return text != nullptr && read_json(*text, member);
    }
}

// The rows of a kind in an org, in any order unless `rest` says one: "and agent = $2 order by id limit $3". The org is
// $1, the parameters come after it.
template <class Row>
Result<std::vector<Row>, ReadError> read_rows(Snapshot& snapshot, core::OrgId org, std::string_view rest = {},
                                              std::vector<Parameter> parameters = {}) {
    parameters.insert(parameters.begin(), std::int64_t{org.value});
    std::vector<Row> rows;
    bool good = true;
    const auto read = snapshot.query(
        select_rows<Row>() + "where org = $1 " + std::string(rest), parameters, [&](const std::vector<Value>& values) {
            Row row{};
            std::size_t index = 1;  // The org is the first.
            boost::mp11::mp_for_each<Columns<Row>>(
                [&](auto column) { good = read_value(values[index++], column.in(row)) && good; });
            rows.push_back(std::move(row));
        });
    if (!read) return fail(read.error());
    if (!good) return fail(ReadError{"a row of " + std::string(Row::table) + " makes no sense"});
    return rows;
}

template <class Row>
Result<std::optional<Row>, ReadError> first_of(Result<std::vector<Row>, ReadError> rows) {
    if (!rows) return fail(rows.error());
    return rows->empty() ? std::optional<Row>() : std::optional<Row>(std::move(rows->front()));
}

// The row under a key, if there is one.
template <class Row>
Result<std::optional<Row>, ReadError> read_row(Snapshot& snapshot, core::OrgId org, const std::string& key) {
    return first_of(read_rows<Row>(snapshot, org, "and " + column_names<Row>().front() + " = $2", {key}));
}
template <class Row>
Result<std::optional<Row>, ReadError> read_row(Snapshot& snapshot, core::OrgId org, Id key) {
    return first_of(read_rows<Row>(snapshot, org, "and " + column_names<Row>().front() + " = $2", {key}));
}

// A number that a query gives: count, sum or max; 0 where it gives none. The org is $1, as above.
inline Result<std::int64_t, ReadError> read_number(Snapshot& snapshot, core::OrgId org, std::string_view sql,
                                                   std::vector<Parameter> parameters = {}) {
    parameters.insert(parameters.begin(), std::int64_t{org.value});
    std::int64_t number = 0;
    const auto read = snapshot.query(sql, parameters, [&](const std::vector<Value>& values) {
        if (const auto* found = std::get_if<std::int64_t>(&values.front())) number = *found;
    });
    if (!read) return fail(read.error());
    return number;
}

}  // namespace interlock::store
