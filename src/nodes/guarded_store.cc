#include "nodes/guarded_store.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "store/seals.h"

namespace interlock::nodes {
namespace {

History::Page page_of(const core::FeedPage& page) { return {page.last_seq, to_hex(page.hash)}; }

}  // namespace

Result<void, store::OpenError> GuardedStore::open() {
    if (auto block_reason = history_.block_reason()) {
        return fail(store::OpenError{store::OpenError::Kind::unavailable, std::move(*block_reason)});
    }
    return store_->open();
}

Result<void, store::ReadError> GuardedStore::load_live(const store::OnLiveRow& on_row) {
    std::map<core::OrgId, History::Page> heads;
    auto loaded = store_->load_live([&](core::OrgId org, store::LiveRow&& row) {
        History::Page& head = heads[org];
        if (const auto* page = std::get_if<core::FeedPage>(&row)) head = page_of(*page);
        on_row(org, std::move(row));
    });
    if (!loaded) return loaded;
    const History::Memory memory = history_.memory();
    for (const auto& [org, head] : heads) {
        auto checked = history_.check(org, memory.last_page(org), head,
                                      [&](core::Seq last_seq) -> Result<std::optional<std::string>, store::ReadError> {
                                          const auto snapshot = store_->snapshot();
                                          if (!snapshot) return fail(snapshot.error());
                                          return hash_of_page(**snapshot, org, last_seq);
                                      });
        if (!checked) return checked;
    }
    return {};
}

Result<void, store::CommitError> GuardedStore::commit(const store::WriteSet& writes) {
    auto committed = store_->commit(writes);
    if (!committed) return committed;
    for (const store::OrgWrites& org : writes.orgs) {
        for (const core::FeedPage* page : org.of<core::FeedPage>().put) {
            history_.remember(org.org, page_of(*page));
            history_.remember(org.org, History::Seal{page->seal_number, to_hex(page->seal_hash)});
        }
        for (const core::Seal* seal : org.of<core::Seal>().put) {
            history_.remember(org.org, History::Seal{seal->number, to_hex(seal->hash)});
        }
    }
    return {};
}

namespace {

// The first page that the rest of the question finds, or an empty one.
Result<History::Page, store::ReadError> find_page(store::Snapshot& snapshot, core::OrgId org, std::string_view rest,
                                                  std::vector<store::Parameter> parameters = {}) {
    parameters.insert(parameters.begin(), std::int64_t{org.value});
    History::Page page;
    auto read =
        snapshot.query("select last_seq, hash from feed_pages where org = $1 " + std::string(rest), parameters,
                       [&](const std::vector<store::Value>& row) {
                           page = {core::Seq(std::get<std::int64_t>(row[0])), to_hex(std::get<std::string>(row[1]))};
                       });
    if (!read) return fail(read.error());
    return page;
}

}  // namespace

Result<std::optional<std::string>, store::ReadError> hash_of_page(store::Snapshot& snapshot, core::OrgId org,
                                                                  core::Seq last_seq) {
    auto page = find_page(snapshot, org, "and last_seq = $2", {last_seq.value});
    if (!page) return fail(page.error());
    return page->hash.empty() ? std::optional<std::string>() : std::optional(std::move(page->hash));
}

namespace {

// Empty, or what is wrong with the seals of an org.
Result<std::string, store::ReadError> compare_seals(store::Snapshot& snapshot, core::OrgId org,
                                                    const History::Memory& memory) {
    const auto known = memory.seals.find(org);
    if (known == memory.seals.end()) return std::string();
    const auto there = store::hash_of_seal(snapshot, org, known->second.number);
    if (!there) return fail(there.error());
    return History::compare(org, known->second, *there);
}

}  // namespace

Result<History::Look, store::ReadError> look_at(const store::StoreIdentity& store, const History::Memory& memory,
                                                store::Snapshot& snapshot) {
    History::Look look{.store = store, .block_reason = History::compare(memory, store)};
    look.of_the_store = !memory.store || memory.store->system == store.system;
    if (!look.block_reason.empty()) return look;
    std::set<core::OrgId> orgs;
    auto read = snapshot.query("select org from orgs", [&](const std::vector<store::Value>& row) {
        orgs.emplace(static_cast<std::uint32_t>(std::get<std::int64_t>(row.front())));
    });
    if (!read) return fail(read.error());
    for (const auto& [org, page] : memory.pages) orgs.insert(org);
    for (const core::OrgId org : orgs) {
        auto last = find_page(snapshot, org, "order by last_seq desc limit 1");
        if (!last) return fail(last.error());
        auto wrong = History::compare(org, memory.last_page(org), *last,
                                      [&](core::Seq last_seq) { return hash_of_page(snapshot, org, last_seq); });
        if (!wrong) return fail(wrong.error());
        if (wrong->empty()) wrong = compare_seals(snapshot, org, memory);
        if (!wrong) return fail(wrong.error());
        look.block_reason = std::move(*wrong);
        if (!look.block_reason.empty()) return look;
        look.heads.emplace(org, std::move(*last));
        auto seal = store::read_seal_head(snapshot, org);
        if (!seal) return fail(seal.error());
        if (*seal) look.seals.emplace(org, History::Seal{(*seal)->number, (*seal)->hash});
    }
    return look;
}

}  // namespace interlock::nodes
