#include "store/transfer.h"

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "base/codec.h"
#include "base/sha256.h"
#include "store/read_rows.h"
#include "store/row_kinds.h"

namespace interlock::store {
namespace {

Result<std::vector<core::OrgId>, ReadError> read_orgs(Snapshot& snapshot) {
    std::vector<core::OrgId> orgs;
    const auto read = snapshot.query("select org from orgs order by org", [&](const std::vector<Value>& row) {
        orgs.emplace_back(static_cast<std::uint32_t>(std::get<std::int64_t>(row.front())));
    });
    if (!read) return fail(read.error());
    return orgs;
}

template <class Row>
bool read_row(const std::vector<Value>& values, Row& row) {
    std::size_t index = 1;  // The org is the first.
    bool good = true;
    boost::mp11::mp_for_each<Columns<Row>>(
        [&](auto column) { good = good && read_value(values[index++], column.in(row)); });
    return good;
}

ReadError makes_no_sense(std::string_view table) { return {fmt::format("a row of {} makes no sense", table)}; }

// ---- pages of rows ------------------------------------------------------------------------------------------------

template <class T>
Parameter to_parameter(const T& member) {
    if constexpr (is_id<T>) {
        return member.value;
    } else if constexpr (std::is_same_v<T, std::string>) {
        return member;
    } else if constexpr (std::is_same_v<T, Instant>) {
        return micros(member);
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        return to_parameter(member.value);
    } else if constexpr (std::is_enum_v<T>) {
        return std::string(boost::describe::enum_to_string(member, ""));
    } else {
        return std::int64_t{member};
    }
}

template <class Row>
std::vector<std::string> key_columns() {
    std::vector<std::string> names = key_names<Row>();
    names.erase(names.begin());
    return names;
}

// "and (session, seq) > ($2, $3) order by session, seq limit 2000"
template <class Row>
std::string behind(const std::optional<Row>& last, std::size_t limit, std::vector<Parameter>& parameters) {
    const std::string key = joined(key_columns<Row>(), ", ");
    std::string sql;
    if (last && Row::key_columns > 0) {
        std::vector<std::string> marks;
        boost::mp11::mp_for_each<boost::mp11::mp_take_c<Columns<Row>, Row::key_columns>>([&](auto column) {
            parameters.push_back(to_parameter(column.in(*last)));
            marks.push_back(fmt::format("${}", parameters.size() + 1));
        });
        sql = fmt::format("and ({}) > ({}) ", key, joined(marks, ", "));
    }
    if (Row::key_columns > 0) sql += "order by " + key;
    return sql + fmt::format(" limit {}", limit);
}

template <class Row>
struct Page {
    std::deque<Row> rows;  // Their addresses stay good while more are added.
    bool last = false;     // There is nothing behind it.
};

template <class Row>
Result<Page<Row>, ReadError> read_page(Snapshot& snapshot, core::OrgId org, const std::optional<Row>& last,
                                       std::size_t limit, std::size_t bytes_max) {
    std::vector<Parameter> parameters;
    const std::string rest = behind(last, limit, parameters);
    parameters.insert(parameters.begin(), std::int64_t{org.value});
    Page<Row> page;
    bool good = true;
    std::size_t bytes = 0;
    std::size_t seen = 0;
    const auto read = snapshot.query(select_rows<Row>() + "where org = $1 " + rest, parameters,
                                     [&](const std::vector<Value>& values) {
                                         ++seen;
                                         if (bytes >= bytes_max) return;  // Read again with the next page.
                                         for (const Value& value : values) {
                                             const auto* text = std::get_if<std::string>(&value);
                                             bytes += sizeof value + (text == nullptr ? 0 : text->size());
                                         }
                                         good = read_row(values, page.rows.emplace_back()) && good;
                                     });
    if (!read) return fail(read.error());
    if (!good) return fail(makes_no_sense(Row::table));
    page.last = page.rows.size() == seen && (seen < limit || Row::key_columns == 0);
    return page;
}

}  // namespace

// ---- what a store holds -------------------------------------------------------------------------------------------

Result<std::vector<TableRows>, ReadError> count_rows(Snapshot& snapshot) {
    std::vector<TableRows> all;
    std::optional<ReadError> error;
    for_each_kind<core::AllRows>([&](auto kind) {
        using Row = typename decltype(kind)::type;
        TableRows& table = all.emplace_back(Row::table);
        if (error) return;
        const auto read =
            snapshot.query(fmt::format("select count(*) from {}", Row::table),
                           [&](const std::vector<Value>& row) { table.rows = std::get<std::int64_t>(row.front()); });
        if (!read) error = read.error();
    });
    if (error) return fail(*error);
    return all;
}

Result<std::vector<FeedHead>, ReadError> read_heads(Snapshot& snapshot) {
    const auto orgs = read_orgs(snapshot);
    if (!orgs) return fail(orgs.error());
    std::vector<FeedHead> heads;
    for (const core::OrgId org : *orgs) {
        const auto page = first_of(read_rows<core::FeedPage>(snapshot, org, "order by last_seq desc limit 1"));
        if (!page) return fail(page.error());
        const core::FeedPage last = page->value_or(core::FeedPage{});
        heads.push_back({org, last.last_seq, to_hex(last.hash)});
    }
    return heads;
}

std::string fingerprint(const std::vector<FeedHead>& heads) {
    std::string text;
    for (const FeedHead& head : heads) {
        text += fmt::format("{} {} {}\n", head.org.value, head.last_seq.value, head.hash);
    }
    return to_hex(sha256(text));
}

namespace {

constexpr std::int64_t rows_per_report = 20'000;

// The sum of the hashes of all rows, as four numbers: it is the same in whatever order they come. Two databases do not
// sort text alike.
class RowSum {
 public:
    void add(std::string_view row) {
        const Sha256 hash = sha256(row);
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            std::uint64_t part = 0;
            std::memcpy(&part, hash.data() + i * sizeof part, sizeof part);
            parts_[i] += part;
        }
    }
    std::string text() const {
        return fmt::format("{:016x}{:016x}{:016x}{:016x}", parts_[0], parts_[1], parts_[2], parts_[3]);
    }

 private:
    std::array<std::uint64_t, 4> parts_{};
};

template <class Row>
Result<TableDigest, ReadError> read_digest(Snapshot& snapshot, const OnRowsRead& on_rows) {
    TableDigest table{.table = Row::table, .rows = 0, .digest = {}};
    RowSum sum;
    bool good = true;
    std::string bytes;
    const auto read = snapshot.query(select_rows<Row>(), [&](const std::vector<Value>& values) {
        Row row{};
        core::OrgId org;
        good = read_value(values.front(), org) && read_row(values, row) && good;
        bytes.clear();
        Encoder encoder(bytes);
        encoder.put(org);
        encoder.put(row);
        sum.add(bytes);
        if (++table.rows % rows_per_report == 0 && on_rows) on_rows(table.table, table.rows);
    });
    if (!read) return fail(read.error());
    if (!good) return fail(makes_no_sense(Row::table));
    table.digest = sum.text();
    return table;
}

}  // namespace

Result<std::vector<TableDigest>, ReadError> read_digests(Snapshot& snapshot, const OnRowsRead& on_rows) {
    std::vector<TableDigest> all;
    std::optional<ReadError> error;
    for_each_kind<core::AllRows>([&](auto kind) {
        if (error) return;
        auto digest = read_digest<typename decltype(kind)::type>(snapshot, on_rows);
        if (digest) {
            all.push_back(std::move(*digest));
        } else {
            error = digest.error();
        }
    });
    if (error) return fail(*error);
    return all;
}

// ---- copying ------------------------------------------------------------------------------------------------------

namespace {

class Copy {
 public:
    Copy(Snapshot& source, Snapshot& there, Store& target, const CopyOptions& options)
        : source_(source), there_(there), target_(target), options_(options) {}

    template <class Row>
    Result<void, std::string> kind(core::OrgId org);

 private:
    template <class Row>
    Result<std::optional<Row>, ReadError> last_there(core::OrgId org);
    Result<void, ReadError> add_ancestors(core::OrgId org, Page<core::Session>& page,
                                          const std::optional<core::Session>& before);

    Snapshot& source_;
    Snapshot& there_;
    Store& target_;
    const CopyOptions& options_;
};

template <class Row>
Result<void, std::string> Copy::kind(core::OrgId org) {
    // 1. Where it goes on.
    auto last = last_there<Row>(org);
    if (!last) return fail(last.error().detail);
    std::int64_t rows = 0;
    if (*last) {
        const auto count = read_number(there_, org, fmt::format("select count(*) from {} where org = $1", Row::table));
        if (!count) return fail(count.error().detail);
        rows = *count;
        // Nothing is held on to: the target's log would grow with every commit.
        if (auto renewed = there_.renew(); !renewed) return fail(renewed.error().detail);
    }

    // 2. Chunk by chunk. Where rows are large, no more of them are asked for than a chunk can take.
    std::size_t limit = options_.rows_max;
    for (bool more = true; more;) {
        auto page = read_page<Row>(source_, org, *last, limit, options_.bytes_max);
        if (!page) return fail(page.error().detail);
        if (page->rows.empty()) break;
        const std::size_t own = page->rows.size();
        Row end = page->rows.back();
        if constexpr (std::is_same_v<Row, core::Session>) {
            if (auto added = add_ancestors(org, *page, *last); !added) return fail(added.error().detail);
        }

        WriteSet writes;
        writes.orgs.push_back({.org = org, .rows = {}});
        for (const Row& row : page->rows) writes.orgs.front().of<Row>().put.push_back(&row);
        if (auto done = target_.commit(writes); !done) {
            return fail(fmt::format("{} could not be written: {}", Row::table, done.error().detail));
        }

        rows += static_cast<std::int64_t>(own);
        if (options_.on_chunk) options_.on_chunk(Row::table, rows);
        more = !page->last;
        limit = std::min(options_.rows_max, own * 2);
        last->emplace(std::move(end));
    }
    return {};
}

template <class Row>
Result<std::optional<Row>, ReadError> Copy::last_there(core::OrgId org) {
    if constexpr (Row::life != core::Life::appended) {
        return std::optional<Row>();
    } else {
        auto found = first_of(
            read_rows<Row>(there_, org, "order by " + joined(key_columns<Row>(), " desc, ") + " desc limit 1"));
        if (!found) return fail(found.error());
        if (auto renewed = there_.renew(); !renewed) return fail(renewed.error());
        return std::move(*found);
    }
}

// A fork refers to its parent, and ids say nothing about who is older. So a parent whose turn has not come yet goes
// with its child; that it is put a second time later does no harm.
Result<void, ReadError> Copy::add_ancestors(core::OrgId org, Page<core::Session>& page,
                                            const std::optional<core::Session>& before) {
    std::set<core::SessionId> in_page;
    for (const core::Session& session : page.rows) in_page.insert(session.id);
    for (std::size_t i = 0; i < page.rows.size(); ++i) {
        const core::SessionId parent = page.rows[i].parent;
        const bool is_there = parent.value.empty() || (before && parent <= before->id) || in_page.contains(parent);
        if (is_there) continue;
        auto row = store::read_row<core::Session>(source_, org, parent.value);
        if (!row) return fail(row.error());
        if (!*row) continue;  // The target says what it thinks of that.
        in_page.insert(parent);
        page.rows.push_back(std::move(**row));
    }
    return {};
}

}  // namespace

Result<void, std::string> copy_rows(Snapshot& source, Store& target, const CopyOptions& options) {
    const auto orgs = read_orgs(source);
    if (!orgs) return fail(orgs.error().detail);
    auto there = target.snapshot();
    if (!there) return fail(there.error().detail);
    if (auto renewed = (*there)->renew(); !renewed) return fail(renewed.error().detail);
    Copy copy(source, **there, target, options);
    for (const core::OrgId org : *orgs) {
        std::optional<std::string> why;
        for_each_kind<core::AllRows>([&](auto kind) {
            if (why) return;
            auto copied = copy.kind<typename decltype(kind)::type>(org);
            if (!copied) why = copied.error();
        });
        if (why) return fail(*why);
    }
    return {};
}

}  // namespace interlock::store
