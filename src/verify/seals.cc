#include "verify/seals.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/sha256.h"

namespace interlock::verify {
namespace {

using store::RowKind;
using store::SealedRow;
using store::SealKey;

constexpr std::uint8_t keys_max = 255;

// What the last seal of a row says of it. Rows are known by a hash: an org can have millions.
struct Sealed {
    std::uint64_t row = 0;
    std::uint64_t digest = 0;
    std::int64_t seal = 0;
    std::uint8_t key = 0;  // Position in the list of keys; keys_max: a key that is not here, or lost.
    bool erased = false;
    bool found = false;
};

std::uint64_t hash_of(RowKind kind, std::string_view key) {
    std::string text(1, static_cast<char>(kind));
    return keyed_hash(text.append(key));
}

class SealCheck {
 public:
    SealCheck(std::int64_t org, const std::vector<SealKey>& keys, SnapshotReader& reader, Findings& findings)
        : org_(org), keys_(keys), reader_(reader), findings_(findings) {}

    void run() {
        read_seals();
        if (reader_.error() || hashes_.empty()) return;
        keep_last_of_each_row();
        for (const RowKind kind : store::sealed_kinds()) compare_rows(kind);
        if (!reader_.error()) name_missing_rows();
        say_what_was_not_compared();
    }
    bool found_seals() const { return !hashes_.empty(); }

 private:
    // ---- the chain ----
    // Seals are in two tables. First their hashes, by number, then what each of them says.
    void read_seals() {
        for (const std::string_view sql : store::seals_sql) {
            reader_.each("seals", sql_for(sql), [&](ColumnReader row) {
                const core::Seal seal = seal_from(row);
                hashes_.emplace_back(seal.number, seal.hash);
            });
        }
        std::ranges::sort(hashes_);
        std::int64_t before = 0;
        for (const auto& [number, hash] : hashes_) {
            if (number != before + 1) {
                violated(seal_name(number), fmt::format("the seal before it has number {}: {}", before,
                                                        number > before ? "some are missing" : "one is there twice"));
            }
            before = number;
        }
        for (const std::string_view sql : store::seals_sql) {
            reader_.each("seals", sql_for(sql), [&](ColumnReader row) { read_seal(seal_from(row)); });
        }
    }

    std::string sql_for(std::string_view seals_of) const { return fmt::format("{}{}", seals_of, org_); }

    static core::Seal seal_from(ColumnReader& row) {
        core::Seal seal;
        seal.number = row.integer();
        seal.at = from_micros(row.integer());
        seal.key_id = row.text();
        seal.digests = row.text();
        seal.hash = row.text();
        return seal;
    }

    // Of the seal before this one; empty where there is none.
    std::string_view hash_before(std::int64_t number) const {
        const auto found = std::ranges::lower_bound(hashes_, number - 1, {}, &Hash::first);
        return found != hashes_.end() && found->first == number - 1 ? std::string_view(found->second) : "";
    }

    void read_seal(const core::Seal& seal) {
        findings_.checked(Promise::sealed_rows);
        const auto known = std::ranges::find(keys_, seal.key_id, &SealKey::id);
        const bool here = known != keys_.end() && !known->lost;
        const auto key = here ? static_cast<std::uint8_t>(known - keys_.begin()) : keys_max;
        if (!here) {
            ++(known == keys_.end() ? unknown_keys_ : lost_keys_)[to_hex(seal.key_id)];
        } else if (store::chain_hash(seal, hash_before(seal.number), *known) != seal.hash) {
            violated(seal_name(seal.number), "its hash does not agree with what it says and the seal before it");
        }
        const auto rows = store::sealed_rows(seal.digests);
        if (!rows) violated(seal_name(seal.number), "its digests cannot be read");
        for (const SealedRow& row : rows ? *rows : std::vector<SealedRow>()) {
            sealed_.push_back({hash_of(row.kind, row.key), row.digest, seal.number, key, row.erased, false});
        }
        if (sealed_.size() > room_) {
            keep_last_of_each_row();
            room_ = std::max(room_, 2 * sealed_.size());
        }
    }

    void keep_last_of_each_row() {
        std::ranges::sort(
            sealed_, [](const Sealed& a, const Sealed& b) { return a.row != b.row ? a.row < b.row : a.seal > b.seal; });
        const auto [first, last] = std::ranges::unique(sealed_, {}, &Sealed::row);
        sealed_.erase(first, last);
    }

    // ---- the rows ----
    void compare_rows(RowKind kind) {
        const store::TableShape& shape = store::shape_of_kind(kind);
        const std::string sql = store::select_rows(shape) + fmt::format("where org = {}", org_);
        reader_.each_values(shape.table, sql, [&](const std::vector<store::Value>& values) {
            const auto row = store::sealable_row(kind, values);
            if (!row) {
                violated(row_of(std::string(shape.table), org_, {}), "a row of it cannot be read");
                return;
            }
            findings_.checked(Promise::sealed_rows);
            const std::uint64_t hash = hash_of(kind, row->key);
            const auto sealed = std::ranges::lower_bound(sealed_, hash, {}, &Sealed::row);
            if (sealed == sealed_.end() || sealed->row != hash) {
                violated(name_of(kind, row->key), "no commit wrote this row");
                return;
            }
            sealed->found = true;
            if (sealed->key == keys_max) return;
            if (sealed->erased) {
                violated(name_of(kind, row->key), fmt::format("commit {} erased this row", sealed->seal));
            } else if (row->digest(keys_[sealed->key]) != sealed->digest) {
                violated(name_of(kind, row->key),
                         fmt::format("is not what commit {} wrote, the last one to write it", sealed->seal));
            }
        });
    }

    // Their names are in the seals, which are read a second time for them.
    void name_missing_rows() {
        std::map<std::int64_t, std::set<std::uint64_t>> missing;
        for (const Sealed& row : sealed_) {
            if (!row.found && !row.erased && row.key != keys_max) missing[row.seal].insert(row.row);
        }
        if (missing.empty()) return;
        for (const std::string_view sql : store::seals_sql) {
            reader_.each("seals", sql_for(sql), [&](ColumnReader row) {
                const core::Seal seal = seal_from(row);
                const auto found = missing.find(seal.number);
                if (found == missing.end()) return;
                const auto rows = store::sealed_rows(seal.digests);
                for (const SealedRow& sealed : rows ? *rows : std::vector<SealedRow>()) {
                    if (found->second.erase(hash_of(sealed.kind, sealed.key)) == 0) continue;
                    violated(name_of(sealed.kind, sealed.key),
                             fmt::format("is missing; commit {} wrote it", seal.number));
                }
            });
        }
    }

    void say_what_was_not_compared() {
        const auto count = [](std::int64_t seals) {
            return seals == 1 ? std::string("one seal") : fmt::format("{} seals", seals);
        };
        for (const auto& [id, seals] : unknown_keys_) {
            if (keys_.empty()) {
                findings_.note(Promise::sealed_rows,
                               fmt::format("{} of org {} were made with key {}, which is not here: their rows were not "
                                           "compared; seal.key was in the data directory of the server that wrote them",
                                           count(seals), org_, id));
                continue;
            }
            findings_.violated(
                Promise::sealed_rows, row_of("seals", org_, {}),
                fmt::format("{} name key {}, which is not in seal.key, so their rows were not compared; if the store "
                            "was written with another seal.key, as on another machine, copy that key into a line of "
                            "this one; if that key no longer exists, write the line 'lost {}'",
                            count(seals), id, id));
        }
        for (const auto& [id, seals] : lost_keys_) {
            findings_.note(Promise::sealed_rows,
                           fmt::format("{} of org {} were made with key {}, which seal.key calls lost: their rows were "
                                       "not compared",
                                       count(seals), org_, id));
        }
    }

    // ---- words ----
    void violated(const store::RowName& row, std::string what) {
        findings_.violated(Promise::sealed_rows, row, std::move(what));
    }
    store::RowName seal_name(std::int64_t number) const { return row_of("seals", org_, {{"number", number}}); }
    store::RowName name_of(RowKind kind, std::string_view key) const {
        const auto name = store::name_of(kind, core::OrgId(static_cast<std::uint32_t>(org_)), key);
        return name ? *name : row_of(std::string(store::shape_of_kind(kind).table), org_, {});
    }

    const std::int64_t org_;
    const std::vector<SealKey>& keys_;
    SnapshotReader& reader_;
    Findings& findings_;
    using Hash = std::pair<std::int64_t, std::string>;
    std::vector<Hash> hashes_;  // Of each seal, by number.
    std::vector<Sealed> sealed_;
    std::size_t room_ = 1'000'000;
    std::map<std::string, std::int64_t> unknown_keys_, lost_keys_;  // By id, in hex: how many seals.
};

bool has_feed(std::int64_t org, SnapshotReader& reader) {
    bool found = false;
    reader.each("feed", fmt::format("select 1 from feed_pages where org = {} limit 1", org),
                [&](ColumnReader) { found = true; });
    return found;
}

}  // namespace

void check_seals(std::int64_t org, const std::vector<SealKey>& keys, SnapshotReader& reader, Findings& findings) {
    SealCheck check(org, keys, reader, findings);
    check.run();
    if (!keys.empty() && !check.found_seals() && has_feed(org, reader)) {
        findings.violated(Promise::sealed_rows, row_of("seals", org, {}),
                          "there are none; a server that starts on a store of an older version makes them");
    }
}

}  // namespace interlock::verify
