#include "store/transfer.h"

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/codec.h"
#include "base/enum_names.h"
#include "base/sha256.h"
#include "store/columns.h"
#include "store/read_rows.h"
#include "store/read_value.h"
#include "store/row_kinds.h"
#include "store/table_shape.h"

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

// ---- rows of one kind ---------------------------------------------------------------------------------------------

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
        return std::string(enum_name(member));
    } else {
        return std::int64_t{member};
    }
}

// Rows of one kind. All that depends on the kind is here; the rest of this file is the same for each.
class Rows {
 public:
    virtual ~Rows() = default;
    virtual const TableShape& shape() const = 0;
    // Adds a row, or says that the values are none.
    virtual bool add(const std::vector<Value>& values) = 0;
    virtual std::size_t size() const = 0;
    virtual void clear() = 0;
    virtual std::vector<Parameter> last_key() const = 0;
    virtual void put_into(OrgWrites& writes) const = 0;
    // The last row's bytes (base/codec.h), behind what is there.
    virtual void encode_last(std::string& bytes) const = 0;
};

template <class Row>
class RowsOf final : public Rows {
 public:
    const TableShape& shape() const override { return shape_of<Row>(); }
    bool add(const std::vector<Value>& values) override { return row_from_values(values, rows.emplace_back()); }
    std::size_t size() const override { return rows.size(); }
    void clear() override { rows.clear(); }
    std::vector<Parameter> last_key() const override {
        std::vector<Parameter> key;
        boost::mp11::mp_for_each<boost::mp11::mp_take_c<Columns<Row>, Row::key_columns>>(
            [&](auto column) { key.push_back(to_parameter(column.in(rows.back()))); });
        return key;
    }
    void put_into(OrgWrites& writes) const override {
        for (const Row& row : rows) writes.of<Row>().put.push_back(&row);
    }
    void encode_last(std::string& bytes) const override { Encoder(bytes).put(rows.back()); }

    std::deque<Row> rows;  // Their addresses stay good while more are added.
};

// One of each kind, in the order of core::AllRows.
std::vector<std::unique_ptr<Rows>> every_kind() {
    std::vector<std::unique_ptr<Rows>> kinds;
    for_each_kind<core::AllRows>(
        [&](auto kind) { kinds.push_back(std::make_unique<RowsOf<typename decltype(kind)::type>>()); });
    return kinds;
}

// ---- pages of rows ------------------------------------------------------------------------------------------------

// "and (session, seq) > ($2, $3) order by session, seq limit 2000"
std::string rows_behind(const TableShape& shape, const std::vector<Parameter>& key, std::size_t limit) {
    const std::string names = joined(key_columns(shape), ", ");
    std::string sql;
    if (!key.empty()) {
        std::vector<std::string> marks;
        for (std::size_t i = 0; i < key.size(); ++i) marks.push_back(fmt::format("${}", i + 2));
        sql = fmt::format("and ({}) > ({}) ", names, joined(marks, ", "));
    }
    if (shape.key_columns > 0) sql += "order by " + names;
    return sql + fmt::format(" limit {}", limit);
}

std::size_t bytes_of(const std::vector<Value>& values) {
    std::size_t bytes = 0;
    for (const Value& value : values) {
        const auto* text = std::get_if<std::string>(&value);
        bytes += sizeof value + (text == nullptr ? 0 : text->size());
    }
    return bytes;
}

// Fills `page` with the rows behind `key`, or the first ones where it is empty. True when nothing is behind them.
Result<bool, ReadError> read_page(Snapshot& snapshot, core::OrgId org, const std::vector<Parameter>& key,
                                  std::size_t limit, std::size_t bytes_max, Rows& page) {
    page.clear();
    std::vector<Parameter> parameters{std::int64_t{org.value}};
    parameters.insert(parameters.end(), key.begin(), key.end());
    bool good = true;
    std::size_t bytes = 0;
    std::size_t seen = 0;
    const auto read =
        snapshot.query(select_rows(page.shape()) + "where org = $1 " + rows_behind(page.shape(), key, limit),
                       parameters, [&](const std::vector<Value>& values) {
                           ++seen;
                           if (bytes >= bytes_max) return;  // Read again with the next page.
                           bytes += bytes_of(values);
                           good = page.add(values) && good;
                       });
    if (!read) return fail(read.error());
    if (!good) return fail(unreadable_row(page.shape().table));
    return page.size() == seen && (seen < limit || page.shape().key_columns == 0);
}

}  // namespace

// ---- what a store holds -------------------------------------------------------------------------------------------

Result<std::vector<TableRows>, ReadError> count_rows(Snapshot& snapshot) {
    std::vector<TableRows> all;
    for (const auto& kind : every_kind()) {
        TableRows& table = all.emplace_back(kind->shape().table);
        const auto read =
            snapshot.query(fmt::format("select count(*) from {}", table.table),
                           [&](const std::vector<Value>& row) { table.rows = std::get<std::int64_t>(row.front()); });
        if (!read) return fail(read.error());
    }
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

Result<TableDigest, ReadError> read_digest(Snapshot& snapshot, Rows& one, const OnRowsRead& on_rows) {
    TableDigest table{.table = one.shape().table, .rows = 0, .digest = {}};
    RowSum sum;
    bool good = true;
    std::string bytes;
    const auto read = snapshot.query(select_rows(one.shape()), [&](const std::vector<Value>& values) {
        core::OrgId org;
        one.clear();
        good = read_value(values.front(), org) && one.add(values) && good;
        bytes.clear();
        Encoder(bytes).put(org);
        one.encode_last(bytes);
        sum.add(bytes);
        if (++table.rows % rows_per_report == 0 && on_rows) on_rows(table.table, table.rows);
    });
    if (!read) return fail(read.error());
    if (!good) return fail(unreadable_row(table.table));
    table.digest = sum.text();
    return table;
}

}  // namespace

Result<std::vector<TableDigest>, ReadError> read_digests(Snapshot& snapshot, const OnRowsRead& on_rows) {
    std::vector<TableDigest> all;
    for (const auto& kind : every_kind()) {
        auto digest = read_digest(snapshot, *kind, on_rows);
        if (!digest) return fail(digest.error());
        all.push_back(std::move(*digest));
    }
    return all;
}

// ---- copying ------------------------------------------------------------------------------------------------------

namespace {

class Copy {
 public:
    Copy(Snapshot& source, Snapshot& there, Store& target, const CopyOptions& options)
        : source_(source), there_(there), target_(target), options_(options) {}

    Result<void, std::string> kind(core::OrgId org, Rows& chunk);

 private:
    Result<std::vector<Parameter>, ReadError> last_key_there(core::OrgId org, Rows& chunk);
    Result<void, ReadError> add_ancestors(core::OrgId org, RowsOf<core::Session>& page);

    Snapshot& source_;
    Snapshot& there_;
    Store& target_;
    const CopyOptions& options_;
};

Result<void, std::string> Copy::kind(core::OrgId org, Rows& chunk) {
    const std::string_view table = chunk.shape().table;
    auto* const sessions = dynamic_cast<RowsOf<core::Session>*>(&chunk);

    // 1. Where it goes on.
    auto last = last_key_there(org, chunk);
    if (!last) return fail(last.error().detail);
    std::int64_t rows = 0;
    if (!last->empty()) {
        const auto count = read_number(there_, org, fmt::format("select count(*) from {} where org = $1", table));
        if (!count) return fail(count.error().detail);
        rows = *count;
        // Nothing is held on to: the target's log would grow with every commit.
        if (auto renewed = there_.renew(); !renewed) return fail(renewed.error().detail);
    }

    // 2. Chunk by chunk. Where rows are large, no more of them are asked for than a chunk can take.
    std::size_t limit = options_.rows_max;
    for (bool more = true; more;) {
        const auto all = read_page(source_, org, *last, limit, options_.bytes_max, chunk);
        if (!all) return fail(all.error().detail);
        if (chunk.size() == 0) break;
        const std::size_t own = chunk.size();
        *last = chunk.last_key();
        if (sessions != nullptr) {
            if (auto added = add_ancestors(org, *sessions); !added) return fail(added.error().detail);
        }

        WriteSet writes;
        writes.orgs.push_back({.org = org, .rows = {}});
        chunk.put_into(writes.orgs.front());
        if (auto done = target_.commit(writes); !done) {
            return fail(fmt::format("{} could not be written: {}", table, done.error().detail));
        }

        rows += static_cast<std::int64_t>(own);
        if (options_.on_chunk) options_.on_chunk(table, rows);
        more = !*all;
        limit = std::min(options_.rows_max, own * 2);
    }
    return {};
}

// Empty where the copy begins at the beginning.
Result<std::vector<Parameter>, ReadError> Copy::last_key_there(core::OrgId org, Rows& chunk) {
    const TableShape& shape = chunk.shape();
    if (shape.life != core::Life::appended) return std::vector<Parameter>();
    chunk.clear();
    bool good = true;
    const auto read = there_.query(
        select_rows(shape) + "where org = $1 order by " + joined(key_columns(shape), " desc, ") + " desc limit 1",
        {std::int64_t{org.value}}, [&](const std::vector<Value>& values) { good = chunk.add(values); });
    if (!read) return fail(read.error());
    if (!good) return fail(unreadable_row(shape.table));
    if (auto renewed = there_.renew(); !renewed) return fail(renewed.error());
    return chunk.size() == 0 ? std::vector<Parameter>() : chunk.last_key();
}

// A fork refers to its parent, and ids say nothing about who is older. So a parent that is not in the page goes with
// its child; that it is put a second time does no harm.
Result<void, ReadError> Copy::add_ancestors(core::OrgId org, RowsOf<core::Session>& page) {
    std::set<core::SessionId> in_page;
    for (const core::Session& session : page.rows) in_page.insert(session.id);
    const core::SessionId first = page.rows.front().id;
    for (std::size_t i = 0; i < page.rows.size(); ++i) {
        const core::SessionId parent = page.rows[i].parent;
        // Sessions are copied in the order of their ids.
        const bool is_there = parent.value.empty() || parent < first || in_page.contains(parent);
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
        for (const auto& kind : every_kind()) {
            if (auto copied = copy.kind(org, *kind); !copied) return copied;
        }
    }
    return {};
}

}  // namespace interlock::store
