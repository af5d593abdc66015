// Seals: what interlock verify compares the stored rows with, to find those that no command wrote as they are.
//
//   1. Every commit of an org adds one seal, numbered 1, 2, 3, …, in its feed page or, without one, in a row of
//      `seals`. It has a digest of each row that the commit wrote, and names each row that the commit erased. The last
//      digest of a row is the one that holds.
//   2. A digest covers the members of a row that have a value, by name: a member that is added later and is empty in an
//      old row changes no digest. It does not cover counters and derived rows (core/rows.h), which verify recomputes.
//      Of a feed page it covers the hash, which covers the rest.
//   3. hash = HMAC-SHA-256(key, hash of the seal before, or 32 zero bytes · number · at · digests), the numbers as 8
//      bytes, little end first. Digests are SipHash-1-3 under a key that is made from the same one. The key is not in
//      the store, so a program that can write the store cannot make a seal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "base/result.h"
#include "base/sha256.h"
#include "store/repair.h"
#include "store/store.h"
#include "store/table_shape.h"

namespace interlock::store {

struct SealKey {
    std::string id;  // Of a seal's `key_id`: 8 bytes that do not give the key away.
    HmacSha256 chain;
    HashKey rows;
    bool lost = false;  // Only the id is known: seals that were made with it cannot be checked.

    // An empty text makes the key of programs that embed the library: it is not secret.
    static SealKey from_text(std::string_view text);
};

// The seal of what a commit writes, after `last`, the org's last one or an empty one.
core::Seal seal_of(const OrgWrites& writes, const core::Seal& last, const SealKey& key, Instant at);
// The same for digests that were put together by add_digest().
core::Seal seal_of(std::string digests, const core::Seal& last, const SealKey& key, Instant at);

// Moves the digests into the page. The rest stays in the seal.
void put_seal(core::FeedPage& page, core::Seal& seal);

// For an org without seals: the seals of all that is stored. There is at least one.
Result<std::vector<core::Seal>, ReadError> seals_of_stored_rows(Snapshot& snapshot, core::OrgId org, const SealKey& key,
                                                                Instant at);

std::string chain_hash(const core::Seal& seal, std::string_view hash_before, const SealKey& key);

// The last seal of an org: it stands for everything that was committed.
struct SealHead {
    core::OrgId org;
    std::int64_t number = 0;
    std::string hash;  // Hex.
};
// Of an org; nothing where it has none.
Result<std::optional<SealHead>, ReadError> read_seal_head(Snapshot& snapshot, core::OrgId org);
// Of every org that has one.
Result<std::vector<SealHead>, ReadError> read_seal_heads(Snapshot& snapshot);
// Both places of seals, as queries of: number, at, key_id, digests, hash. The org is at the end.
constexpr std::array<std::string_view, 2> seals_sql{
    "select seal_number, at, seal_key, digests, seal_hash from feed_pages where seal_number > 0 and org = ",
    "select number, at, key_id, digests, hash from seals where org = "};
// The hash of a seal, in hex; nothing where there is no such seal.
Result<std::optional<std::string>, ReadError> hash_of_seal(Snapshot& snapshot, core::OrgId org, std::int64_t number);

// Positions in core::AllRows.
using RowKind = std::uint8_t;
// Kinds that seals cover.
const std::vector<RowKind>& sealed_kinds();
const TableShape& shape_of_kind(RowKind kind);

// A row as a seal names it.
struct SealedRow {
    RowKind kind = 0;
    std::string_view key;  // Encoded (base/codec.h).
    bool erased = false;
    std::uint64_t digest = 0;
};
// Empty when the bytes are not what a seal has.
std::optional<std::vector<SealedRow>> sealed_rows(std::string_view digests);
void add_digest(std::string& digests, const SealedRow& row);

// A stored row, as far as a seal covers it.
struct SealableRow {
    std::string key;
    std::string bytes;
    std::uint64_t digest(const SealKey& with) const { return keyed_hash(bytes, with.rows); }
};
// From the values of its columns, the org first. Empty when a value does not fit its column.
std::optional<SealableRow> sealable_row(RowKind kind, const std::vector<Value>& values);

// The row under a key, for people. Empty when the key is none of the kind.
std::optional<RowName> name_of(RowKind kind, core::OrgId org, std::string_view key);

}  // namespace interlock::store
