#include "store/table_shape.h"

#include <array>
#include <span>
#include <tuple>

#include "store/column_values.h"
#include "store/columns.h"

namespace interlock::store {

namespace {

struct ColumnShape {
    std::string_view prefix;
    std::string_view member;
    ColumnForm form;
};

template <class Row, class Columns>
struct ColumnShapes;
template <class Row, template <class...> class List, class... Column>
struct ColumnShapes<Row, List<Column...>> {
    static constexpr std::array<ColumnShape, sizeof...(Column)> all{
        ColumnShape{Column::prefix, Column::member, column_form<Row, Column>()}...};
};

TableShape with_columns(TableShape shape, std::span<const ColumnShape> columns) {
    for (const ColumnShape& column : columns) {
        shape.columns.push_back(column_name(column.prefix, column.member));
        shape.forms.push_back(column.form);
    }
    return shape;
}

}  // namespace

std::string column_name(std::string_view prefix, std::string_view member) {
    std::string name(prefix);
    if (!prefix.empty()) name += '_';
    return name.append(member);
}

template <class Row>
const TableShape& shape_of() {
    static const TableShape shape = with_columns(
        {.table = Row::table, .columns = {}, .forms = {}, .key_columns = Row::key_columns, .life = Row::life},
        ColumnShapes<Row, Columns<Row>>::all);
    return shape;
}

// Compiles shape_of for every kind of row.
template <class Rows>
struct Shapes;
template <class... Row>
struct Shapes<std::tuple<Row...>> {
    static constexpr std::tuple functions{&shape_of<Row>...};
};
template struct Shapes<core::AllRows>;

bool is_chain(const TableShape& shape) {
    return shape.table == core::FeedPage::table || shape.table == core::Seal::table;
}

std::string quoted(const std::string& name) { return name == "window" ? "\"window\"" : name; }

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string all;
    for (const std::string& word : words) {
        if (!all.empty()) all += between;
        all += word;
    }
    return all;
}

std::string column_list(const TableShape& shape) {
    std::string list = "org";
    for (const std::string& name : shape.columns) list += ", " + quoted(name);
    return list;
}

std::vector<std::string> key_columns(const TableShape& shape) {
    return {shape.columns.begin(), shape.columns.begin() + static_cast<std::ptrdiff_t>(shape.key_columns)};
}

namespace {
std::vector<std::string> primary_key_columns(const TableShape& shape) {
    std::vector<std::string> names = key_columns(shape);
    names.insert(names.begin(), "org");
    return names;
}
}  // namespace

std::string primary_key(const TableShape& shape) { return joined(primary_key_columns(shape), ", "); }

std::string where_key(const TableShape& shape) {
    return "where " + joined(primary_key_columns(shape), " = ? and ") + " = ?";
}

std::string select_rows(const TableShape& shape) {
    return "select " + column_list(shape) + " from " + std::string(shape.table) + " ";
}

std::string assignment(const std::string& column) { return quoted(column) + " = excluded." + quoted(column); }

}  // namespace interlock::store
