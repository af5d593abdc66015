#include "store/seals.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <boost/describe/enum_to_string.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "base/ensure.h"
#include "base/sha256.h"
#include "store/columns.h"
#include "store/read_rows.h"
#include "store/row_kinds.h"

namespace interlock::store {
namespace {

constexpr std::size_t digest_bytes = sizeof(std::uint64_t);
constexpr unsigned char erased_mark = 0x80;
static_assert(std::tuple_size_v<core::AllRows> < erased_mark, "a kind and the mark share a byte");

template <class Row>
constexpr RowKind kind_of = boost::mp11::mp_find<core::AllRows, Row>::value;

template <class Row>
constexpr bool is_sealed = !requires { typename Row::derived; } && !std::is_same_v<Row, core::Seal>;

// ---- the bytes of a row -------------------------------------------------------------------------------------------

constexpr std::uint32_t tag_of(std::string_view name) {
    std::uint32_t hash = 0x811c9dc5u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
    return hash;
}

template <class Row>
constexpr bool is_counter(std::string_view name) {
    if constexpr (requires { Row::counters; }) {
        return std::ranges::find(Row::counters, name) != Row::counters.end();
    } else {
        return false;
    }
}

template <class T>
constexpr bool is_struct =
    boost::describe::has_describe_members<T>::value && !std::is_same_v<T, Id> && !std::is_same_v<T, Money> &&
    !std::is_same_v<T, Instant> && !codec_detail::IsStrong<T>::value;

// Writes members as their tag and their value, and leaves out those without a value. Every number has a fixed size, and
// the room is made for many of them at once: this runs for every row that is written.
class Bytes {
 public:
    explicit Bytes(std::string& out) : out_(out) { out_.resize(out_.capacity()); }
    ~Bytes() { out_.resize(size_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    template <class Struct>
    void put_members(const Struct& value) {
        boost::mp11::mp_for_each<codec_detail::MembersOf<Struct>>([&](auto member) {
            using Member = decltype(member);
            if constexpr (!is_counter<Struct>(Member::name)) put_member(tag_of(Member::name), value.*Member::pointer);
        });
    }
    void put_text(std::string_view text) {
        make_room(text.size());
        std::memcpy(out_.data() + size_, text.data(), text.size());
        size_ += text.size();
    }

 private:
    template <class T>
    void put_member(std::uint32_t tag, const T& value) {
        if constexpr (is_struct<T>) {
            const std::size_t before = size_;
            put_number(tag);
            const std::size_t start = size_;
            put_members(value);
            if (size_ == start) {
                size_ = before;
            } else {
                put_number(std::uint32_t{0});
            }
        } else {
            if (is_empty(value)) return;
            put_number(tag);
            put(value);
        }
    }

    template <class T>
    static bool is_empty(const T& value) {
        if constexpr (requires { value.empty(); }) {
            return value.empty();
        } else {
            return value == T{};
        }
    }

    template <class T>
    void put(const T& value) {
        using namespace codec_detail;
        if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
            put_number(static_cast<std::uint8_t>(value));
        } else if constexpr (std::is_unsigned_v<T>) {
            put_number(std::uint64_t{value});
        } else if constexpr (std::is_integral_v<T>) {
            put_number(std::int64_t{value});
        } else if constexpr (std::is_same_v<T, std::string>) {
            put_number(static_cast<std::uint32_t>(value.size()));
            put_text(value);
        } else if constexpr (std::is_same_v<T, Instant>) {
            put_number(micros(value));
        } else if constexpr (std::is_same_v<T, Money>) {
            put_number(value.nanos());
        } else if constexpr (std::is_same_v<T, Id>) {
            put_number(value.high);
            put_number(value.low);
        } else if constexpr (IsStrong<T>::value) {
            put(value.value);
        } else if constexpr (IsVector<T>::value) {
            put_number(static_cast<std::uint32_t>(value.size()));
            for (const auto& element : value) put(element);
        } else if constexpr (IsMap<T>::value) {
            put_number(static_cast<std::uint32_t>(value.size()));
            for (const auto& [key, mapped] : value) {
                put(key);
                put(mapped);
            }
        } else {
            static_assert(is_struct<T>, "a row has no other members");
            put_members(value);
            put_number(std::uint32_t{0});
        }
    }

    template <class Number>
    void put_number(Number number) {
        make_room(sizeof number);
        std::memcpy(out_.data() + size_, &number, sizeof number);
        size_ += sizeof number;
    }
    void make_room(std::size_t bytes) {
        if (out_.size() - size_ < bytes) out_.resize(2 * (size_ + bytes));
    }

    std::string& out_;
    std::size_t size_ = 0;
};

template <class Row>
void put_bytes(std::string& out, const Row& row) {
    Bytes bytes(out);
    if constexpr (std::is_same_v<Row, core::FeedPage>) {
        bytes.put_text(row.hash);
    } else {
        bytes.put_members(row);
    }
}

template <class Row>
void put_key(std::string& out, const core::KeyOf<Row>& key) {
    if constexpr (Row::key_columns == 1) {
        Encoder(out).put(key);
    } else if constexpr (Row::key_columns > 1) {
        std::apply([&](const auto&... part) { (Encoder(out).put(part), ...); }, key);
    }
}

// ---- one function for each kind -----------------------------------------------------------------------------------

template <class T>
StoredValue stored_value(const T& member) {
    if constexpr (std::is_same_v<T, Id>) {
        std::string bytes;
        Encoder(bytes).put(member);
        return Blob{bytes.substr(1)};
    } else if constexpr (std::is_same_v<T, std::string>) {
        return member;
    } else if constexpr (std::is_same_v<T, Instant>) {
        return micros(member);
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        return stored_value(member.value);
    } else if constexpr (std::is_enum_v<T>) {
        return std::string(boost::describe::enum_to_string(member, ""));
    } else {
        return std::int64_t{member};
    }
}

template <class Row>
std::optional<RowName> row_name(core::OrgId org, std::string_view key) {
    Row row{};
    Decoder decoder(key);
    RowName name{std::string(Row::table), {{"org", std::int64_t{org.value}}}};
    bool good = true;
    boost::mp11::mp_for_each<boost::mp11::mp_take_c<Columns<Row>, Row::key_columns>>([&](auto column) {
        good = good && decoder.get(column.in(row));
        name.key.push_back({column.name(), stored_value(column.in(row))});
    });
    return good && decoder.at_end() ? std::optional(std::move(name)) : std::nullopt;
}

template <class Row>
std::optional<SealableRow> sealable(const std::vector<Value>& values) {
    Row row{};
    if (!row_from_values(values, row)) return std::nullopt;
    SealableRow made;
    put_key<Row>(made.key, core::key_of(row));
    put_bytes(made.bytes, row);
    return made;
}

struct KindFunctions {
    const TableShape* shape = nullptr;
    std::optional<SealableRow> (*sealable)(const std::vector<Value>&) = nullptr;
    std::optional<RowName> (*name)(core::OrgId, std::string_view) = nullptr;
};

const std::vector<KindFunctions>& kinds() {
    static const std::vector<KindFunctions> all = [] {
        std::vector<KindFunctions> made;
        for_each_kind<core::AllRows>([&](auto kind) {
            using Row = typename decltype(kind)::type;
            KindFunctions& functions = made.emplace_back();
            functions.shape = &shape_of<Row>();
            if constexpr (is_sealed<Row>) {
                functions.sealable = &sealable<Row>;
                functions.name = &row_name<Row>;
            }
        });
        return made;
    }();
    return all;
}

bool is_sealed_kind(RowKind kind) { return kind < kinds().size() && kinds()[kind].sealable != nullptr; }

// ---- hashes -------------------------------------------------------------------------------------------------------

std::string text_of(const Sha256& hash) { return {hash.begin(), hash.end()}; }

std::string_view bytes_of(const std::int64_t& number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

SealKey SealKey::from_text(std::string_view text) {
    const auto derive = [text](std::string_view use) {
        return text_of(Sha256Hasher().add("interlock seal ").add(use).add(text).finish());
    };
    SealKey key{.id = derive("id ").substr(0, 8), .chain = derive("chain "), .rows = {}};
    const std::string rows = derive("rows ");
    std::memcpy(&key.rows.k0, rows.data(), sizeof key.rows.k0);
    std::memcpy(&key.rows.k1, rows.data() + sizeof key.rows.k0, sizeof key.rows.k1);
    return key;
}

std::string chain_hash(const core::Seal& seal, std::string_view hash_before, const SealKey& key) {
    constexpr std::size_t block = 64;
    const auto padded = [&](char pad) {
        std::string bytes(block, pad);
        for (std::size_t i = 0; i < key.chain.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ key.chain[i]);
        return bytes;
    };
    static const std::string zeros(32, '\0');
    const std::int64_t at = micros(seal.at);
    const Sha256 inner = Sha256Hasher()
                             .add(padded('\x36'))
                             .add(hash_before.empty() ? std::string_view(zeros) : hash_before)
                             .add(bytes_of(seal.number))
                             .add(bytes_of(at))
                             .add(seal.digests)
                             .finish();
    return text_of(Sha256Hasher().add(padded('\x5c')).add(text_of(inner)).finish());
}

core::Seal seal_of(std::string digests, const core::Seal& last, const SealKey& key, Instant at) {
    core::Seal seal{.number = last.number + 1, .at = at, .key_id = key.id, .digests = std::move(digests), .hash = {}};
    seal.hash = chain_hash(seal, last.hash, key);
    return seal;
}

void put_seal(core::FeedPage& page, core::Seal& seal) {
    page.seal_number = seal.number;
    page.seal_key = seal.key_id;
    page.digests = std::move(seal.digests);
    page.seal_hash = seal.hash;
    seal.digests.clear();
}

core::Seal seal_of(const OrgWrites& writes, const core::Seal& last, const SealKey& key, Instant at) {
    std::string digests;
    std::string bytes;
    std::string row_key;
    std::size_t rows = 0;
    for_each_kind<core::AllRows>([&](auto tag) { rows += writes.of<typename decltype(tag)::type>().put.size(); });
    digests.reserve(32 * rows);
    bytes.reserve(512);
    for_each_kind<core::AllRows>([&](auto tag) {
        using Row = typename decltype(tag)::type;
        if constexpr (is_sealed<Row>) {
            const RowWrites<Row>& of_kind = writes.of<Row>();
            for (const Row* row : of_kind.put) {
                bytes.clear();
                row_key.clear();
                put_bytes(bytes, *row);
                put_key<Row>(row_key, core::key_of(*row));
                add_digest(digests, {kind_of<Row>, row_key, false, keyed_hash(bytes, key.rows)});
            }
            for (const core::KeyOf<Row>& erased : of_kind.erased) {
                row_key.clear();
                put_key<Row>(row_key, erased);
                add_digest(digests, {kind_of<Row>, row_key, true, 0});
            }
        }
    });
    return seal_of(std::move(digests), last, key, at);
}

Result<std::vector<core::Seal>, ReadError> seals_of_stored_rows(Snapshot& snapshot, core::OrgId org, const SealKey& key,
                                                                Instant at) {
    constexpr std::size_t bytes_max = 1u << 20;
    std::vector<core::Seal> seals;
    std::string digests;
    const auto finish_seal = [&] {
        const core::Seal last = seals.empty() ? core::Seal{} : seals.back();
        seals.push_back(seal_of(std::exchange(digests, {}), last, key, at));
    };
    for (const RowKind kind : sealed_kinds()) {
        bool good = true;
        const auto read = snapshot.query(select_rows(shape_of_kind(kind)) + "where org = $1", {std::int64_t{org.value}},
                                         [&](const std::vector<Value>& values) {
                                             const auto row = sealable_row(kind, values);
                                             good = good && row.has_value();
                                             if (!row) return;
                                             add_digest(digests, {kind, row->key, false, row->digest(key)});
                                             if (digests.size() >= bytes_max) finish_seal();
                                         });
        if (!read) return fail(read.error());
        if (!good) return fail(unreadable_row(shape_of_kind(kind).table));
    }
    if (!digests.empty() || seals.empty()) finish_seal();
    return seals;
}

Result<std::optional<SealHead>, ReadError> read_seal_head(Snapshot& snapshot, core::OrgId org) {
    std::optional<SealHead> head;
    auto read = snapshot.query(
        "select number, hash from (select seal_number as number, seal_hash as hash from feed_pages where org = $1 and "
        "last_seq = (select max(last_seq) from feed_pages where org = $1) union all select number, hash from seals "
        "where "
        "org = $1 and number = (select max(number) from seals where org = $1)) as heads where number > 0",
        {std::int64_t{org.value}}, [&](const std::vector<Value>& row) {
            const std::int64_t number = std::get<std::int64_t>(row[0]);
            if (head && head->number > number) return;
            head = SealHead{org, number, to_hex(std::get<std::string>(row[1]))};
        });
    if (!read) return fail(read.error());
    return head;
}

Result<std::vector<SealHead>, ReadError> read_seal_heads(Snapshot& snapshot) {
    std::vector<core::OrgId> orgs;
    auto read = snapshot.query("select org from orgs order by org", [&](const std::vector<Value>& row) {
        orgs.emplace_back(static_cast<std::uint32_t>(std::get<std::int64_t>(row.front())));
    });
    if (!read) return fail(read.error());
    std::vector<SealHead> heads;
    for (const core::OrgId org : orgs) {
        auto head = read_seal_head(snapshot, org);
        if (!head) return fail(head.error());
        if (*head) heads.push_back(std::move(**head));
    }
    return heads;
}

Result<std::optional<std::string>, ReadError> hash_of_seal(Snapshot& snapshot, core::OrgId org, std::int64_t number) {
    std::optional<std::string> hash;
    auto read = snapshot.query(
        "select seal_hash from feed_pages where org = $1 and seal_number = $2 union all "
        "select hash from seals where org = $1 and number = $2",
        {std::int64_t{org.value}, number},
        [&](const std::vector<Value>& row) { hash = to_hex(std::get<std::string>(row[0])); });
    if (!read) return fail(read.error());
    return hash;
}

const std::vector<RowKind>& sealed_kinds() {
    static const std::vector<RowKind> sealed = [] {
        std::vector<RowKind> made;
        for (std::size_t kind = 0; kind < kinds().size(); ++kind) {
            if (is_sealed_kind(static_cast<RowKind>(kind))) made.push_back(static_cast<RowKind>(kind));
        }
        return made;
    }();
    return sealed;
}

const TableShape& shape_of_kind(RowKind kind) { return *kinds().at(kind).shape; }

// A row is its kind, with a mark where it was erased; its key, behind the key's length; and its digest, unless erased.
void add_digest(std::string& digests, const SealedRow& row) {
    digests.push_back(static_cast<char>(row.kind | (row.erased ? erased_mark : 0)));
    Encoder(digests).put(std::uint64_t{row.key.size()});
    digests += row.key;
    if (!row.erased) digests.append(reinterpret_cast<const char*>(&row.digest), digest_bytes);
}

std::optional<std::vector<SealedRow>> sealed_rows(std::string_view digests) {
    std::vector<SealedRow> rows;
    while (!digests.empty()) {
        SealedRow& row = rows.emplace_back();
        const auto first = static_cast<unsigned char>(digests.front());
        digests.remove_prefix(1);
        row.erased = (first & erased_mark) != 0;
        row.kind = static_cast<RowKind>(first & ~erased_mark);
        std::size_t length = 0;
        unsigned shift = 0;
        for (bool more = true; more; shift += 7) {
            if (digests.empty() || shift > 28) return std::nullopt;
            const auto byte = static_cast<unsigned char>(digests.front());
            digests.remove_prefix(1);
            length |= std::size_t{byte & 0x7Fu} << shift;
            more = byte >= 0x80;
        }
        const std::size_t behind = row.erased ? 0 : digest_bytes;
        if (!is_sealed_kind(row.kind) || digests.size() < length + behind) return std::nullopt;
        row.key = digests.substr(0, length);
        digests.remove_prefix(length);
        std::memcpy(&row.digest, digests.data(), behind);
        digests.remove_prefix(behind);
    }
    return rows;
}

std::optional<SealableRow> sealable_row(RowKind kind, const std::vector<Value>& values) {
    ensure(is_sealed_kind(kind), "only kinds that seals cover have digests");
    return kinds()[kind].sealable(values);
}

std::optional<RowName> name_of(RowKind kind, core::OrgId org, std::string_view key) {
    return is_sealed_kind(kind) ? kinds()[kind].name(org, key) : std::nullopt;
}

}  // namespace interlock::store
