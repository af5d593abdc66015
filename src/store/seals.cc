#include "store/seals.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "base/ensure.h"
#include "base/enum_names.h"
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

// What members of a fixed size take at most, with tags and with the lengths of the others.
template <class Struct>
consteval std::size_t fixed_bytes() {
    std::size_t bytes = 0;
    boost::mp11::mp_for_each<codec_detail::MembersOf<Struct>>([&](auto member) {
        using T = std::remove_cvref_t<decltype(std::declval<Struct&>().*member.pointer)>;
        bytes += sizeof(std::uint32_t);
        if constexpr (is_struct<T>) {
            bytes += fixed_bytes<T>() + sizeof(std::uint32_t);
        } else {
            bytes += sizeof(Id);
        }
    });
    return bytes;
}

// Writes members as their tag and their value, and leaves out those without a value. This runs for every row that is
// written. So numbers have a fixed size, and there is always room for `spare` bytes: only what has no fixed size has to
// ask for more.
class Bytes {
 public:
    // Valid until the next call.
    template <class Row>
    std::string_view of(const Row& row) {
        if constexpr (std::is_same_v<Row, core::FeedPage>) {
            return row.hash;
        } else {
            const char* const end = put_members(buffer_.data(), row);
            return {buffer_.data(), static_cast<std::size_t>(end - buffer_.data())};
        }
    }

 private:
    static constexpr std::size_t spare = 1024;

    // Each of these writes at `at`, and returns the end of what it wrote.
    template <class Struct>
    char* put_members(char* at, const Struct& value) {
        static_assert(fixed_bytes<Struct>() <= spare);
        boost::mp11::mp_for_each<codec_detail::MembersOf<Struct>>([&](auto member) {
            using Member = decltype(member);
            if constexpr (!is_counter<Struct>(Member::name)) {
                at = put_member(at, tag_of(Member::name), value.*Member::pointer);
            }
        });
        return at;
    }

    template <class T>
    char* put_member(char* at, std::uint32_t tag, const T& value) {
        if constexpr (is_struct<T>) {
            char* const start = put_number(at, tag);
            char* const end = put_members(start, value);
            return end == start ? at : put_number(end, std::uint32_t{0});
        } else {
            return is_empty(value) ? at : put(put_number(at, tag), value);
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
    char* put(char* at, const T& value) {
        using namespace codec_detail;
        if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
            return put_number(at, static_cast<std::uint8_t>(value));
        } else if constexpr (std::is_unsigned_v<T>) {
            return put_number(at, std::uint64_t{value});
        } else if constexpr (std::is_integral_v<T>) {
            return put_number(at, std::int64_t{value});
        } else if constexpr (std::is_same_v<T, std::string>) {
            at = make_room(put_size(at, value), value.size());
            std::memcpy(at, value.data(), value.size());
            return at + value.size();
        } else if constexpr (std::is_same_v<T, Instant>) {
            return put_number(at, micros(value));
        } else if constexpr (std::is_same_v<T, Money>) {
            return put_number(at, value.nanos());
        } else if constexpr (std::is_same_v<T, Id>) {
            return put_number(put_number(at, value.high), value.low);
        } else if constexpr (IsStrong<T>::value) {
            return put(at, value.value);
        } else if constexpr (IsVector<T>::value) {
            at = put_size(at, value);
            for (const auto& element : value) at = make_room(put(at, element), 0);
            return at;
        } else if constexpr (IsMap<T>::value) {
            at = put_size(at, value);
            for (const auto& [key, mapped] : value) at = make_room(put(put(at, key), mapped), 0);
            return at;
        } else {
            static_assert(is_struct<T>, "a row has no other members");
            return put_number(put_members(at, value), std::uint32_t{0});
        }
    }

    template <class Container>
    static char* put_size(char* at, const Container& value) {
        return put_number(at, static_cast<std::uint32_t>(value.size()));
    }
    template <class Number>
    static char* put_number(char* at, Number number) {
        std::memcpy(at, &number, sizeof number);
        return at + sizeof number;
    }
    // For so many bytes and `spare`. What was written may move.
    char* make_room(char* at, std::size_t bytes) {
        const auto size = static_cast<std::size_t>(at - buffer_.data());
        if (buffer_.size() - size < bytes + spare) buffer_.resize(2 * (size + bytes + spare));
        return buffer_.data() + size;
    }

    std::string buffer_ = std::string(2 * spare, '\0');
};

template <class Row>
void put_key(std::string& out, const core::KeyOf<Row>& key) {
    if constexpr (Row::key_columns == 1) {
        Encoder(out).put(key);
    } else if constexpr (Row::key_columns > 1) {
        std::apply([&](const auto&... part) { (Encoder(out).put(part), ...); }, key);
    }
}

// The same, without a copy of the key.
template <class Row>
void put_key_of(std::string& out, const Row& row) {
    boost::mp11::mp_for_each<boost::mp11::mp_take_c<core::ColumnsOf<Row>, Row::key_columns>>(
        [&](auto member) { Encoder(out).put(row.*member.pointer); });
}

// ---- the digests of a seal ----------------------------------------------------------------------------------------

// A row is its kind, with a mark where it was erased; its key, behind the key's length; and its digest, unless erased.
template <class AddKey>
void add_name(std::string& digests, int first, AddKey add_key) {
    digests.push_back(static_cast<char>(first));
    const std::size_t at = digests.size();
    digests.push_back('\0');
    add_key();
    const std::uint64_t length = digests.size() - at - 1;
    if (length < 0x80) {
        digests[at] = static_cast<char>(length);  // Its encoding.
    } else {
        digests.replace(at, 1, encode(length));
    }
}

void add_number(std::string& digests, std::uint64_t digest) {
    digests.append(reinterpret_cast<const char*>(&digest), digest_bytes);
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
        return std::string(enum_name(member));
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
        name.key.push_back({column_name(column.prefix, column.member), stored_value(column.in(row))});
    });
    return good && decoder.at_end() ? std::optional(std::move(name)) : std::nullopt;
}

template <class Row>
std::optional<SealableRow> sealable(const std::vector<Value>& values) {
    Row row{};
    if (!row_from_values(values, row)) return std::nullopt;
    SealableRow made;
    put_key_of(made.key, row);
    made.bytes = Bytes().of(row);
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
    SealKey key{.id = derive("id ").substr(0, 8), .chain = HmacSha256(derive("chain ")), .rows = {}};
    const std::string rows = derive("rows ");
    std::memcpy(&key.rows.k0, rows.data(), sizeof key.rows.k0);
    std::memcpy(&key.rows.k1, rows.data() + sizeof key.rows.k0, sizeof key.rows.k1);
    return key;
}

std::string chain_hash(const core::Seal& seal, std::string_view hash_before, const SealKey& key) {
    static const std::string zeros(32, '\0');
    const std::int64_t at = micros(seal.at);
    Sha256Hasher message = key.chain.begin();
    message.add(hash_before.empty() ? std::string_view(zeros) : hash_before)
        .add(bytes_of(seal.number))
        .add(bytes_of(at))
        .add(seal.digests);
    return text_of(key.chain.finish(message));
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
    Bytes bytes;
    std::size_t rows = 0;
    for_each_kind<core::AllRows>([&](auto tag) { rows += writes.of<typename decltype(tag)::type>().put.size(); });
    digests.reserve(32 * rows);
    for_each_kind<core::AllRows>([&](auto tag) {
        using Row = typename decltype(tag)::type;
        if constexpr (is_sealed<Row>) {
            const RowWrites<Row>& of_kind = writes.of<Row>();
            for (const Row* row : of_kind.put) {
                add_name(digests, kind_of<Row>, [&] { put_key_of(digests, *row); });
                add_number(digests, keyed_hash(bytes.of(*row), key.rows));
            }
            for (const core::KeyOf<Row>& erased : of_kind.erased) {
                add_name(digests, kind_of<Row> | erased_mark, [&] { put_key<Row>(digests, erased); });
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

void add_digest(std::string& digests, const SealedRow& row) {
    add_name(digests, row.kind | (row.erased ? erased_mark : 0), [&] { digests += row.key; });
    if (!row.erased) add_number(digests, row.digest);
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
