// What this node remembers of the store's history, to notice when the store has forgotten some of it: after a failover
// that lost commits, or when an old backup took its place.
//
//   (1) For each org the last page of the feed and the last seal (store/seals.h) that this node has seen committed:
//       number and hash of each. They are written down before the commit is answered; a killed process leaves them
//       behind.
//   (2) A store in which the page or the seal is missing, or has another hash, is not served. Nor is another store, or
//       one that went back to an earlier timeline.
//   (3) Only a person can accept such a history, by taking the memory away (interlock accept-history). Until then the
//       node says so in the store, and no other node serves it either. A store in which the page is found again, as
//       when the look before led to a primary that was replaced, is served again, and no person has to accept it.
//
// For any number of threads.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/rows.h"
#include "nodes/wire.h"
#include "store/cluster.h"

namespace interlock::nodes {

class History {
 public:
    struct Page {
        core::Seq last_seq;
        std::string hash;
        friend bool operator==(const Page&, const Page&) = default;
    };
    struct Seal {
        std::int64_t number = 0;
        std::string hash;
        friend bool operator==(const Seal&, const Seal&) = default;
    };
    struct Memory {
        std::optional<store::StoreIdentity> store;
        std::map<core::OrgId, Page> pages;
        std::map<core::OrgId, Seal> seals;

        Page last_page(core::OrgId org) const {  // An empty one where nothing is remembered.
            const auto found = pages.find(org);
            return found == pages.end() ? Page{} : found->second;
        }
    };

    // The error is a sentence: a file that cannot be read or written, or is none of ours.
    static Result<std::unique_ptr<History>, std::string> open(std::string path);
    // What a file remembers that a running server may be writing; nothing where there is no file.
    static Result<Memory, std::string> read(const std::string& path);
    ~History();

    void remember(core::OrgId org, const Page& page);
    void remember(core::OrgId org, const Seal& seal);
    // Also through a power loss. Without it, what was remembered last may be lost by one, and never more than that: a
    // page is remembered after it was committed.
    void sync();
    Memory memory();
    std::optional<Head> head(core::OrgId org) const;

    // Each remembers what it finds in order, and objects to what it does not.
    void check(const store::StoreIdentity& store);
    // `known` was remembered before `last`, the org's last page, was read. `hash_of` gives the hash of the org's page
    // that ends with a number, or nothing where there is no such page.
    using HashOf = std::function<Result<std::optional<std::string>, store::ReadError>(core::Seq)>;
    Result<void, store::ReadError> check(core::OrgId org, const Page& known, const Page& last, const HashOf& hash_of);

    // What one snapshot shows, compared with what was remembered before it was taken (look_at in guarded_store.h).
    struct Look {
        store::StoreIdentity store;
        std::map<core::OrgId, Page> heads = {};
        std::map<core::OrgId, Seal> seals = {};
        std::string block_reason = {};  // Empty: everything that is remembered is there.
        bool of_the_store = true;
    };
    // Objects, or takes back what was objected to before: a store that has everything again may be served.
    void conclude(const Look& look);
    // The two comparisons. Each returns what is wrong, or an empty text, and changes nothing.
    static std::string compare(const Memory& memory, const store::StoreIdentity& store);
    static Result<std::string, store::ReadError> compare(core::OrgId org, const Page& known, const Page& last,
                                                         const HashOf& hash_of);
    // `there` is the hash of the store's seal with the number of the one that is remembered.
    static std::string compare(core::OrgId org, const Seal& known, const std::optional<std::string>& there);

    // Why the store must not be served, or nothing: for what is remembered here, or as another node has said. Our own
    // goes away when the memory is taken away, or when conclude() finds nothing wrong.
    std::optional<std::string> block_reason();
    // What this node itself has found, and whether it is the store's fault: another store is none.
    struct Objection {
        std::string why;
        bool of_the_store = true;
    };
    std::optional<Objection> own_objection();
    void hear_objection(std::string of_another);

 private:
    explicit History(std::string path) : path_(std::move(path)) {}

    Result<void, std::string> load();
    Result<void, std::string> load(const std::string& bytes);
    Result<void, std::string> create();
    void write_slot(std::size_t slot, const std::string& line);
    void write_page(core::OrgId org);
    void write_seal(core::OrgId org);
    std::size_t slot_of(std::map<core::OrgId, std::size_t>& slots, core::OrgId org);
    void object(std::string what, bool of_the_store = true);
    void adopt(const store::StoreIdentity& store);
    void forget_what_was_taken_away();

    const std::string path_;
    mutable std::mutex mutex_;
    int file_ = -1;
    Memory memory_;
    std::map<core::OrgId, std::size_t> page_slots_, seal_slots_;
    std::size_t next_slot_ = 1;  // The first is the store's.
    Objection objection_;
    std::string heard_;
};

}  // namespace interlock::nodes
