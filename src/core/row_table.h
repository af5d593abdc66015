// The rows of one kind in one org, as the rules see them: the committed ones overlaid with what this batch has changed.
//
//   (1) A row is dirty from its first change until committed(): a thousand changes in a batch are one write.
//   (2) Dirty rows are never dropped from memory; clean ones of a cached kind may be, between batches.
//   (3) A pointer from find() stays good until the row is erased or the batch ends.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/ensure.h"
#include "core/key_of.h"
#include "core/rows.h"
#include "core/source.h"

namespace interlock::core {

// Throws SourceFailed where the source cannot say whether there is such a row.
inline bool load_from(RowSource& source, OrgId org, ColdRow& row) {
    if (source.load(org, row)) return true;
    if (source.failed()) throw SourceFailed{};
    return false;
}

template <class Row>
class RowTable {
    struct Entry {
        Row row{};
        bool there = false;
        bool dirty = false;
    };
    using Entries = std::unordered_map<KeyOf<Row>, Entry, KeyHash>;
    using Node = typename Entries::value_type;  // Stays where it is until it is erased.

 public:
    using RowType = Row;
    using Key = KeyOf<Row>;

    // A row that was looked up once, to be read now and perhaps changed later. Good as long as a pointer from find().
    class Ref {
     public:
        explicit operator bool() const { return node_ != nullptr; }
        const Row* operator->() const { return &node_->second.row; }

     private:
        friend class RowTable;
        Node* node_ = nullptr;
    };

    RowTable(OrgId org, RowSource& source) : org_(org), source_(&source) {}

    // The row, or null where there is none. A cached kind asks the source for what is not in memory.
    const Row* find(const Key& key) {
        const Node* node = find_node(key);
        return node != nullptr ? &node->second.row : nullptr;
    }

    // For a row that find() has shown to be there.
    Row& edit(const Key& key) {
        Node* node = find_node(key);
        ensure(node != nullptr, "only rows that are there are edited");
        return touch(*node);
    }

    Ref look_up(const Key& key) {
        Ref ref;
        ref.node_ = find_node(key);
        return ref;
    }
    Row& edit(Ref ref) { return touch(*ref.node_); }

    Row& edit_or_insert(const Key& key) {
        if (Node* node = find_node(key)) return touch(*node);
        return insert(with_key<Row>(key));
    }

    Row& insert(Row row) {
        Node& node = *entries_.try_emplace(key_of(row)).first;
        ensure(!node.second.there, "only rows that are not there are inserted");
        node.second.row = std::move(row);
        node.second.there = true;
        return touch(node);
    }

    void erase(const Key& key) {
        edit(key);
        entries_.find(key)->second.there = false;
    }

    // A row read from the store at open.
    void adopt(Row row) {
        Key key = key_of(row);
        entries_.insert_or_assign(std::move(key), Entry{.row = std::move(row), .there = true, .dirty = false});
    }

    template <class Put, class Erased>
    void collect(Put put, Erased erased) const {
        for (const Node* node : dirty_) node->second.there ? put(node->second.row) : erased(node->first);
    }

    // The batch is durable. `keep` says which clean rows of a cached kind must stay when there are too many.
    template <class Keep>
    void committed(std::size_t rows_max, Keep keep) {
        for (Node* node : dirty_) {
            node->second.dirty = false;
            if (!node->second.there) entries_.erase(entries_.find(node->first));
        }
        dirty_.clear();
        if (Row::life == Life::cached && entries_.size() > rows_max) {
            std::erase_if(entries_, [&](const auto& entry) { return !keep(entry.second.row); });
        }
    }

    // Whether find() needs no source.
    bool knows(const Key& key) const { return entries_.contains(key); }
    bool has_changes() const { return !dirty_.empty(); }
    std::size_t size() const { return entries_.size(); }

 private:
    Node* find_node(const Key& key) {
        if (const auto found = entries_.find(key); found != entries_.end()) {
            return found->second.there ? &*found : nullptr;
        }
        if constexpr (Row::life == Life::cached) {
            ColdRow row = with_key<Row>(key);
            if (!load_from(*source_, org_, row)) return nullptr;
            return &*entries_.emplace(key, Entry{std::get<Row>(std::move(row)), true, false}).first;
        }
        return nullptr;
    }

    Row& touch(Node& node) {
        if (!node.second.dirty) {
            node.second.dirty = true;
            dirty_.push_back(&node);
        }
        return node.second.row;
    }

    OrgId org_;
    RowSource* source_;
    Entries entries_;
    std::vector<Node*> dirty_;
};

// Rows that are written once: kept only until they are committed.
template <class Row>
class Journal {
 public:
    using Key = KeyOf<Row>;

    Journal(OrgId org, RowSource& source) : org_(org), source_(&source) {}

    Row& add() { return rows_.emplace_back(); }

    // Looks through the batch and then in the store: slow, for repeats only.
    std::optional<Row> find(const Key& key) {
        for (const Row& row : rows_) {
            if (key_of(row) == key) return row;
        }
        ColdRow row = with_key<Row>(key);
        if (!load_from(*source_, org_, row)) return std::nullopt;
        return std::get<Row>(std::move(row));
    }

    const std::vector<Row>& rows() const { return rows_; }
    void committed() { rows_.clear(); }

 private:
    OrgId org_;
    RowSource* source_;
    std::vector<Row> rows_;
};

}  // namespace interlock::core
