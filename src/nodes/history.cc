#include "nodes/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "base/sha256.h"

namespace interlock::nodes {
namespace {

// The file is lines of one length, so that each can be written over: the store first, then an org each.
constexpr std::size_t line_bytes = 128;

std::string padded(std::string line) {
    line.resize(line_bytes - 1, ' ');
    return line + '\n';
}

std::string to_line(const store::StoreIdentity& store) {
    return padded(fmt::format("store {} {}", store.system, store.timeline));
}
std::string to_line(core::OrgId org, const History::Page& page) {
    return padded(fmt::format("org {} {} {}", org.value, page.last_seq.value, page.hash));
}
std::string to_line(core::OrgId org, const History::Seal& seal) {
    return padded(fmt::format("seal {} {} {}", org.value, seal.number, seal.hash));
}

// Up to the end of the file, or an empty text where nothing can be read.
std::string read_all(int file) {
    std::string bytes;
    std::array<char, 64 * line_bytes> buffer;
    for (ssize_t got = 0; (got = ::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(bytes.size()))) > 0;) {
        bytes.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return bytes;
}

}  // namespace

Result<std::unique_ptr<History>, std::string> History::open(std::string path) {
    std::unique_ptr<History> history(new History(std::move(path)));
    if (auto loaded = history->load(); !loaded) return fail(loaded.error());
    return history;
}

Result<History::Memory, std::string> History::read(const std::string& path) {
    constexpr int attempts = 1000;
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return Memory();
    if (file < 0) return fail(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    // A server that writes a line meanwhile could be seen in the middle of it, but not twice at the same place.
    std::string bytes = read_all(file);
    for (int attempt = 0; attempt < attempts; ++attempt) {
        std::string again = read_all(file);
        if (again == bytes) break;
        bytes = std::move(again);
    }
    ::close(file);
    History history(path);
    if (auto loaded = history.load(bytes); !loaded) return fail(loaded.error());
    return std::move(history.memory_);
}

History::~History() {
    if (file_ >= 0) ::close(file_);
}

Result<void, std::string> History::load() {
    file_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (file_ < 0 && errno == ENOENT) return create();
    if (file_ < 0) return fail(fmt::format("cannot open {}: {}", path_, std::strerror(errno)));
    return load(read_all(file_));
}

Result<void, std::string> History::load(const std::string& bytes) {
    for (std::size_t slot = 0; slot * line_bytes < bytes.size(); ++slot) {
        const std::string text = bytes.substr(slot * line_bytes, line_bytes);
        // A power loss can leave the end of the file short, or as zeros. That much was not remembered yet.
        const bool ours = text.starts_with("org ") || text.starts_with("seal ") || text.starts_with("store ");
        if ((ours && text.size() < line_bytes) || text.find_first_not_of('\0') == std::string::npos) continue;
        std::istringstream line(text);
        std::string word;
        line >> word;
        if (word == "store") {
            memory_.store.emplace();
            line >> memory_.store->system >> memory_.store->timeline;
        } else if (word == "org") {
            core::OrgId org;
            Page page;
            line >> org.value >> page.last_seq.value >> page.hash;
            memory_.pages[org] = page;
            page_slots_[org] = slot;
            next_slot_ = slot + 1;
        } else if (word == "seal") {
            core::OrgId org;
            Seal seal;
            line >> org.value >> seal.number >> seal.hash;
            memory_.seals[org] = seal;
            seal_slots_[org] = slot;
            next_slot_ = slot + 1;
        }
        if (!line || !ours) {
            return fail(
                fmt::format("line {} of {} makes no sense; what this node remembers of the store's history is lost. "
                            "If the store is the right one: interlock accept-history",
                            slot + 1, path_));
        }
    }
    return {};
}

Result<void, std::string> History::create() {
    if (file_ >= 0) ::close(file_);
    memory_ = {};
    page_slots_.clear();
    seal_slots_.clear();
    next_slot_ = 1;
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_ < 0) return fail(fmt::format("cannot make {}: {}", path_, std::strerror(errno)));
    return {};
}

void History::write_slot(std::size_t slot, const std::string& line) {
    // A node that cannot write its memory has less of it, which is no reason to stop.
    (void)!::pwrite(file_, line.data(), line.size(), static_cast<off_t>(slot * line_bytes));
}

std::size_t History::slot_of(std::map<core::OrgId, std::size_t>& slots, core::OrgId org) {
    const auto [slot, added] = slots.try_emplace(org, next_slot_);
    if (added) ++next_slot_;
    return slot->second;
}

void History::write_page(core::OrgId org) { write_slot(slot_of(page_slots_, org), to_line(org, memory_.pages[org])); }
void History::write_seal(core::OrgId org) { write_slot(slot_of(seal_slots_, org), to_line(org, memory_.seals[org])); }

void History::remember(core::OrgId org, const Page& page) {
    const std::lock_guard lock(mutex_);
    Page& known = memory_.pages[org];
    if (page.last_seq <= known.last_seq || !memory_.store) return;
    known = page;
    write_page(org);
}

void History::remember(core::OrgId org, const Seal& seal) {
    const std::lock_guard lock(mutex_);
    if (!memory_.store || seal.number < 1) return;
    Seal& known = memory_.seals[org];
    if (seal.number <= known.number) return;
    known = seal;
    write_seal(org);
}

void History::sync() {
    const std::lock_guard lock(mutex_);
    ::fsync(file_);
}

History::Memory History::memory() {
    const std::lock_guard lock(mutex_);
    forget_what_was_taken_away();
    return memory_;
}

std::optional<Head> History::head(core::OrgId org) const {
    const std::lock_guard lock(mutex_);
    const auto found = memory_.pages.find(org);
    if (found == memory_.pages.end()) return std::nullopt;
    return Head{org, found->second.last_seq, found->second.hash};
}

std::string History::compare(const Memory& memory, const store::StoreIdentity& store) {
    if (memory.store && memory.store->system != store.system) {
        return fmt::format("this is another database: its system identifier is {}, and it was {}", store.system,
                           memory.store->system);
    }
    if (memory.store && store.timeline < memory.store->timeline) {
        return fmt::format("the database is on timeline {}, and it was on {}", store.timeline, memory.store->timeline);
    }
    return {};
}

void History::check(const store::StoreIdentity& store) {
    const std::lock_guard lock(mutex_);
    forget_what_was_taken_away();
    if (auto wrong = compare(memory_, store); !wrong.empty()) {
        return object(std::move(wrong), memory_.store->system == store.system);
    }
    adopt(store);
}

void History::adopt(const store::StoreIdentity& store) {
    if (memory_.store == store) return;
    memory_.store = store;
    write_slot(0, to_line(store));
    for (const auto& [org, page] : memory_.pages) write_page(org);
    for (const auto& [org, seal] : memory_.seals) write_seal(org);
}

Result<std::string, store::ReadError> History::compare(core::OrgId org, const Page& known, const Page& last,
                                                       const HashOf& hash_of) {
    if (known.last_seq.value == 0) return std::string();
    std::optional<std::string> hash;
    if (last.last_seq == known.last_seq) {
        hash = last.hash;
    } else if (last.last_seq > known.last_seq) {
        auto found = hash_of(known.last_seq);
        if (!found) return fail(found.error());
        hash = std::move(*found);
    }
    if (hash == known.hash) return std::string();
    return fmt::format(
        "org {}: event {} was committed with hash {:.12}…, and the database has {}; its feed ends at "
        "event {}",
        org.value, known.last_seq.value, known.hash, hash ? fmt::format("hash {:.12}… there", *hash) : "no such page",
        last.last_seq.value);
}

std::string History::compare(core::OrgId org, const Seal& known, const std::optional<std::string>& there) {
    if (known.number == 0 || there == known.hash) return {};
    return fmt::format("org {}: commit {} was sealed with hash {:.12}…, and the database has {}", org.value,
                       known.number, known.hash, there ? fmt::format("hash {:.12}… there", *there) : "no such seal");
}

Result<void, store::ReadError> History::check(core::OrgId org, const Page& known, const Page& last,
                                              const HashOf& hash_of) {
    auto wrong = compare(org, known, last, hash_of);
    if (!wrong) return fail(wrong.error());
    if (!wrong->empty()) {
        const std::lock_guard lock(mutex_);
        object(std::move(*wrong));
        return fail(store::ReadError{objection_.why});
    }
    if (last.last_seq.value > 0) remember(org, last);
    return {};
}

void History::conclude(const Look& look) {
    {
        const std::lock_guard lock(mutex_);
        objection_ = {};
        if (!look.block_reason.empty()) return object(look.block_reason, look.of_the_store);
        adopt(look.store);
    }
    for (const auto& [org, head] : look.heads) {
        if (head.last_seq.value > 0) remember(org, head);
    }
    for (const auto& [org, seal] : look.seals) remember(org, seal);
}

void History::object(std::string what, bool of_the_store) {
    if (!objection_.why.empty()) return;
    objection_.why = "history went backwards: " + what +
                     ". Nothing is served, so that nothing more is lost. If this database is the right one, accept it "
                     "with: interlock accept-history";
    objection_.of_the_store = of_the_store;
}

std::optional<std::string> History::block_reason() {
    if (auto own = own_objection()) return std::move(own->why);
    const std::lock_guard lock(mutex_);
    return heard_.empty() ? std::nullopt : std::optional(heard_);
}

void History::hear_objection(std::string of_another) {
    const std::lock_guard lock(mutex_);
    heard_ = std::move(of_another);
}

std::optional<History::Objection> History::own_objection() {
    const std::lock_guard lock(mutex_);
    if (!objection_.why.empty()) forget_what_was_taken_away();
    return objection_.why.empty() ? std::nullopt : std::optional(objection_);
}

void History::forget_what_was_taken_away() {
    struct stat there;
    if (::stat(path_.c_str(), &there) == 0 || errno != ENOENT || !create()) return;
    objection_ = {};
}

}  // namespace interlock::nodes
