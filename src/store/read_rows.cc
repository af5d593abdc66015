#include "store/read_rows.h"

#include <functional>
#include <tuple>

#include <boost/mp11/algorithm.hpp>

#include "store/columns.h"
#include "store/read_every_org.h"
#include "store/read_value.h"
#include "store/table_shape.h"

namespace interlock::store {
namespace {

// Asks for whole rows and hands the values of each to `add`, which says whether they are a row.
Result<void, ReadError> query_rows(Snapshot& snapshot, const TableShape& shape, std::string_view rest,
                                   const std::vector<Parameter>& parameters,
                                   const std::function<bool(const std::vector<Value>&)>& add) {
    bool good = true;
    const auto read = snapshot.query(select_rows(shape) + std::string(rest), parameters,
                                     [&](const std::vector<Value>& values) { good = add(values) && good; });
    if (!read) return fail(read.error());
    if (!good) return fail(unreadable_row(shape.table));
    return {};
}

}  // namespace

ReadError unreadable_row(std::string_view table) { return {"a row of " + std::string(table) + " makes no sense"}; }

template <class Row>
bool row_from_values(const std::vector<Value>& values, Row& row) {
    std::size_t index = 1;  // The org is the first.
    bool good = true;
    boost::mp11::mp_for_each<Columns<Row>>(
        [&](auto column) { good = read_value(values[index++], column.in(row)) && good; });
    return good;
}

template <class Row>
Result<std::vector<Row>, ReadError> read_rows(Snapshot& snapshot, core::OrgId org, std::string_view rest,
                                              std::vector<Parameter> parameters) {
    parameters.insert(parameters.begin(), std::int64_t{org.value});
    std::vector<Row> rows;
    const auto read =
        query_rows(snapshot, shape_of<Row>(), "where org = $1 " + std::string(rest), parameters,
                   [&](const std::vector<Value>& values) { return row_from_values(values, rows.emplace_back()); });
    if (!read) return fail(read.error());
    return rows;
}

template <class Row>
Result<std::optional<Row>, ReadError> read_row(Snapshot& snapshot, core::OrgId org, Parameter key) {
    const std::vector<std::string>& columns = shape_of<Row>().columns;
    return first_of(read_rows<Row>(snapshot, org, "and " + columns.front() + " = $2", {std::move(key)}));
}

template <class Row>
Result<std::vector<OfOrg<Row>>, ReadError> read_every_org(Snapshot& snapshot, std::string_view rest,
                                                          const std::vector<Parameter>& parameters) {
    std::vector<OfOrg<Row>> rows;
    const auto read = query_rows(snapshot, shape_of<Row>(), rest, parameters, [&](const std::vector<Value>& values) {
        OfOrg<Row>& found = rows.emplace_back();
        return read_value(values.front(), found.org) && row_from_values(values, found.row);
    });
    if (!read) return fail(read.error());
    return rows;
}

// Compiles the templates above for every kind of row.
template <class Row>
struct RowReader {
    bool (*from_values)(const std::vector<Value>&, Row&) = row_from_values;
    Result<std::vector<Row>, ReadError> (*rows)(Snapshot&, core::OrgId, std::string_view,
                                                std::vector<Parameter>) = read_rows;
    Result<std::optional<Row>, ReadError> (*row)(Snapshot&, core::OrgId, Parameter) = read_row;
};
template <class Rows>
struct RowReaders;
template <class... Row>
struct RowReaders<std::tuple<Row...>> {
    static constexpr std::tuple<RowReader<Row>...> readers{};
};
template struct RowReaders<core::AllRows>;
template Result<std::vector<OfOrg<core::Org>>, ReadError> read_every_org(Snapshot&, std::string_view,
                                                                         const std::vector<Parameter>&);
template Result<std::vector<OfOrg<core::ApiKey>>, ReadError> read_every_org(Snapshot&, std::string_view,
                                                                            const std::vector<Parameter>&);

Result<std::int64_t, ReadError> read_number(Snapshot& snapshot, core::OrgId org, std::string_view sql,
                                            std::vector<Parameter> parameters) {
    parameters.insert(parameters.begin(), std::int64_t{org.value});
    std::int64_t number = 0;
    const auto read = snapshot.query(sql, parameters, [&](const std::vector<Value>& values) {
        if (const auto* found = std::get_if<std::int64_t>(&values.front())) number = *found;
    });
    if (!read) return fail(read.error());
    return number;
}

}  // namespace interlock::store
