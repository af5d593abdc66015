// Copying a whole store into another one, row by row, through what every store can do: snapshots and commits.
//
//   (1) Org by org, in the order of core::AllRows: what a row refers to is there before it, or in the same commit.
//   (2) A copy that broke off is gone on with: what is written once and never changed goes on behind its last key, and
//       the rest, of which there is less, is put again.
//   (3) It keeps one chunk in memory, whatever the size of the store.
//
// Nobody else may write either store meanwhile; that is the caller's to see to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/rows.h"
#include "store/store.h"

namespace interlock::store {

struct TableRows {
    std::string_view table;
    std::int64_t rows = 0;
    friend bool operator==(const TableRows&, const TableRows&) = default;
};
// One for each kind, in the order in which they are copied.
Result<std::vector<TableRows>, ReadError> count_rows(Snapshot& snapshot);

// The last page of an org's feed. The hash chain makes it stand for the whole feed.
struct FeedHead {
    core::OrgId org;
    core::Seq last_seq;
    std::string hash;  // In hex.
    friend bool operator==(const FeedHead&, const FeedHead&) = default;
};
Result<std::vector<FeedHead>, ReadError> read_heads(Snapshot& snapshot);
// Of all heads together: tells a store from any other, and from itself at another time.
std::string fingerprint(const std::vector<FeedHead>& heads);

// What a table holds, whatever the order of its rows. Two tables with the same digest have the same rows.
struct TableDigest {
    std::string_view table;
    std::int64_t rows = 0;
    std::string digest;
    friend bool operator==(const TableDigest&, const TableDigest&) = default;
};
using OnRowsRead = std::function<void(std::string_view table, std::int64_t rows)>;  // Now and then.
Result<std::vector<TableDigest>, ReadError> read_digests(Snapshot& snapshot, const OnRowsRead& on_rows = {});

struct CopyOptions {
    std::size_t rows_max = 2000;  // In a chunk.
    std::size_t bytes_max = 8 << 20;
    // `table` has so many rows in the target now, those of other orgs not counted.
    std::function<void(std::string_view table, std::int64_t rows)> on_chunk = {};
};
// The target is open, and has no row that the source has not. The error is a sentence; what was committed stays.
Result<void, std::string> copy_rows(Snapshot& source, Store& target, const CopyOptions& options);

}  // namespace interlock::store
