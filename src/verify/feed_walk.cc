#include "verify/feed_walk.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "base/sha256.h"

namespace interlock::verify {
namespace {

// The kinds of events that are looked into; the numbers are part of the stored form.
enum EventKind : std::uint8_t {
    charged = 0,
    agent_changed_kind = 4,
    cap_changed_kind = 10,
    run_changed = 20,
    run_ended = 22,
    schedule_fired = 25,
};
constexpr std::array<std::string_view, 3> cap_kinds{"org", "provider", "node"};

constexpr std::size_t suspects_max = 32;     // More than that are counted, not explained.
constexpr std::int64_t gap_max = 1'000'000;  // A page that claims to be further ahead is not worth the memory.

// The fields of an encoded struct, from the front. Past the end of the bytes everything reads as 0, "" or false.
class Fields {
 public:
    explicit Fields(std::string_view bytes) : rest_(bytes) {}

    std::uint8_t byte() {
        const std::string_view taken = take(1);
        return taken.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(taken.front());
    }
    std::int64_t integer() {
        const std::uint64_t bits = unsigned_integer();
        return static_cast<std::int64_t>(bits >> 1) ^ -static_cast<std::int64_t>(bits & 1);
    }
    std::string_view text() { return take(unsigned_integer()); }
    Id id() {
        const bool stated = byte() != 0;
        const std::string_view taken = take(stated ? 16 : 0);
        Id id;
        for (std::size_t i = 0; i < taken.size(); ++i) {
            std::uint64_t& half = i < 8 ? id.high : id.low;
            half = half << 8 | static_cast<std::uint8_t>(taken[i]);
        }
        return id;
    }

 private:
    std::string_view take(std::uint64_t count) {
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(taken.size());
        return taken;
    }
    std::uint64_t unsigned_integer() {
        std::uint64_t bits = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const std::uint8_t seven = byte();
            bits |= std::uint64_t{seven & 0x7Fu} << shift;
            if (seven < 0x80) break;
        }
        return bits;
    }
    std::string_view rest_;
};

ChargeFacts charge_from(std::string_view fields_of_charge) {
    Fields fields(fields_of_charge);
    ChargeFacts charge;
    charge.key = fields.id();
    charge.agent = fields.text();
    charge.provider = fields.text();
    charge.model = fields.text();
    charge.run = fields.id();
    charge.session = fields.id();
    charge.hold = fields.id();
    charge.cost = fields.integer();
    charge.tokens = fields.integer();
    charge.overage = fields.integer();
    charge.estimated = fields.byte() != 0;
    return charge;
}

// Calls on_event with the position and the bytes of each event. The number of events, or empty when the body is not a
// sequence of events.
template <class OnEvent>
std::optional<std::int64_t> each_event(std::string_view body, OnEvent on_event) {
    std::int64_t count = 0;
    while (!body.empty()) {
        std::uint32_t length = 0;
        if (body.size() < sizeof length) return std::nullopt;
        std::memcpy(&length, body.data(), sizeof length);
        body.remove_prefix(sizeof length);
        if (length == 0 || body.size() < length) return std::nullopt;
        on_event(count++, body.substr(0, length));
        body.remove_prefix(length);
    }
    return count;
}

// Never 0. Two different charges have the same digest once in 2^64.
std::uint64_t digest_of(const ChargeFacts& charge) {
    std::string bytes;
    const auto add = [&bytes](std::uint64_t number) {
        bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    for (const Id& id : {charge.key, charge.run, charge.session, charge.hold}) add(id.high), add(id.low);
    for (const std::int64_t number : {charge.cost, charge.tokens, charge.overage})
        add(static_cast<std::uint64_t>(number));
    for (const std::string_view text : {charge.agent, charge.provider, charge.model})
        add(text.size()), bytes.append(text);
    add(charge.estimated ? 1 : 0);
    return keyed_hash(bytes) | 1;
}

std::string_view bytes_of(const std::int64_t& number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string difference(const ChargeFacts& row, const ChargeFacts& feed) {
    std::string text;
    const auto compare = [&](std::string_view name, const auto& ours, const auto& theirs) {
        if (ours == theirs) return;
        if (!text.empty()) text += "; ";
        text += fmt::format("{} is {}, the feed says {}", name, to_text(ours), to_text(theirs));
    };
    const auto value = [](std::string_view stated) { return store::StoredValue(std::string(stated)); };
    const auto number = [](std::int64_t stated) { return store::StoredValue(stated); };
    compare("key", stored(row.key), stored(feed.key));
    compare("agent", value(row.agent), value(feed.agent));
    compare("provider", value(row.provider), value(feed.provider));
    compare("model", value(row.model), value(feed.model));
    compare("run", stored(row.run), stored(feed.run));
    compare("session", stored(row.session), stored(feed.session));
    compare("hold", stored(row.hold), stored(feed.hold));
    compare("cost", number(row.cost), number(feed.cost));
    compare("the sum of tokens", number(row.tokens), number(feed.tokens));
    compare("overage", number(row.overage), number(feed.overage));
    compare("estimated", number(row.estimated), number(feed.estimated));
    return text;
}

}  // namespace

void FeedWalk::walk() {
    reader_.each(
        "feed pages",
        fmt::format("select last_seq, first_seq, at, body, hash from feed_pages where org = {} order by last_seq",
                    org_),
        [this](ColumnReader columns) {
            Page page;
            page.last_seq = columns.integer();
            page.first_seq = columns.integer();
            page.at = columns.integer();
            page.body = columns.text();
            page.hash = columns.text();
            check_page(page);
        });
}

void FeedWalk::check_page(const Page& page) {
    const auto violated = [&](std::string what) {
        findings_.violated(Promise::unbroken_feed, page_name(page.last_seq), std::move(what));
    };
    findings_.checked(Promise::unbroken_feed);

    if (page.first_seq != last_seq_ + 1) {
        violated(fmt::format("begins with event {}, the page before ends with event {}", page.first_seq, last_seq_));
    }
    if (page.at < last_at_)
        violated(fmt::format("was written at {}, before the page before it ({})", page.at, last_at_));

    static const std::string zeros(32, '\0');
    Sha256Hasher hasher;
    hasher.add(last_hash_.empty() ? zeros : last_hash_);
    hasher.add(bytes_of(page.first_seq)).add(bytes_of(page.last_seq)).add(bytes_of(page.at)).add(page.body);
    const Sha256 hash = hasher.finish();
    if (page.hash != std::string_view(reinterpret_cast<const char*>(hash.data()), hash.size())) {
        violated("its hash is not the hash of the page before it and its own content");
    }

    const auto count = each_event(
        page.body, [&](std::int64_t i, std::string_view event) { read_event(page.first_seq + i, page.at, event); });
    if (!count) {
        violated("its body is not a sequence of events");
    } else if (*count != __int128{page.last_seq} - page.first_seq + 1) {
        violated(fmt::format("holds {} events, its numbers are {} to {}", *count, page.first_seq, page.last_seq));
    }

    // The stored hash, not the recomputed one: a page that was changed is named once, not all that follow it.
    last_hash_ = page.hash;
    last_seq_ = page.last_seq;
    last_at_ = page.at;
}

void FeedWalk::read_event(std::int64_t seq, std::int64_t page_at, std::string_view event) {
    const auto kind = static_cast<std::uint8_t>(event.front());
    Fields fields(event.substr(1));
    switch (kind) {
        case charged:
            return remember_charge(seq, charge_from(event.substr(1)));
        case agent_changed_kind:
            agent_changes_[std::string(fields.text())] = seq;
            return;
        case cap_changed_kind: {
            const std::uint8_t cap_kind = fields.byte();
            if (cap_kind < cap_kinds.size()) {
                cap_changes_[{std::string(cap_kinds[cap_kind]), std::string(fields.text())}] = seq;
            }
            return;
        }
        case run_changed: {
            const Id run = fields.id();
            fields.text();  // agent
            fields.byte();  // state
            const std::int64_t fence = fields.integer();
            // The first event that shows the fence is the admission; starting and pausing come later.
            Admission& admission = admissions_[run];
            if (fence > 0 && admission.fence != fence) admission = {fence, seq};
            return;
        }
        case run_ended:
            admissions_.erase(fields.id());
            return;
        case schedule_fired: {
            const std::string_view schedule = fields.text();
            const std::int64_t at = fields.integer();
            return read_tick(seq, page_at, schedule, at, fields.id());
        }
        default:
            return;  // Nothing that a check needs.
    }
}

// ---- charges ------------------------------------------------------------------------------------------------------

void FeedWalk::remember_charge(std::int64_t seq, const ChargeFacts& charge) {
    if (seq < 1 || seq > static_cast<std::int64_t>(charges_.size()) + gap_max) return;
    if (charges_.size() < static_cast<std::size_t>(seq)) charges_.resize(static_cast<std::size_t>(seq));
    charges_[static_cast<std::size_t>(seq) - 1] = digest_of(charge);
}

void FeedWalk::match_charge(std::int64_t seq, const ChargeFacts& row) {
    findings_.checked(Promise::nothing_twice);
    const bool in_range = seq >= 1 && seq <= static_cast<std::int64_t>(charges_.size());
    std::uint64_t* charge = in_range ? &charges_[static_cast<std::size_t>(seq) - 1] : nullptr;
    if (charge != nullptr && *charge == digest_of(row)) {
        *charge = 0;
        return;
    }
    Suspect suspect{seq, row, std::string(row.agent), std::string(row.provider), std::string(row.model)};
    if (suspects_.size() < suspects_max) {
        suspects_.push_back(std::move(suspect));
    } else {
        findings_.violated(Promise::nothing_twice, row_of("cost_events", org_, {{"key", stored(row.key)}}),
                           fmt::format("event {} of the feed does not say so", seq));
    }
}

void FeedWalk::finish_charges() {
    for (const Suspect& suspect : suspects_) explain(suspect);
    for (std::size_t i = 0; i < charges_.size(); ++i) {
        if (charges_[i] == 0) continue;
        findings_.violated(Promise::nothing_twice,
                           row_of("cost_events", org_, {{"seq", static_cast<std::int64_t>(i + 1)}}),
                           fmt::format("event {} of the feed is a charge, and there is no cost event like it", i + 1));
    }
}

// Reads the page again to say in what the two differ.
void FeedWalk::explain(const Suspect& suspect) {
    ChargeFacts row = suspect.row;
    row.agent = suspect.agent;
    row.provider = suspect.provider;
    row.model = suspect.model;
    const bool in_range = suspect.seq >= 1 && suspect.seq <= static_cast<std::int64_t>(charges_.size());
    std::string differs;
    const std::string sql = fmt::format(
        "select first_seq, body from feed_pages where org = {} and last_seq >= {} order by last_seq limit 1", org_,
        suspect.seq);
    reader_.each("feed pages", sql, [&](ColumnReader columns) {
        const std::int64_t first_seq = columns.integer();
        each_event(columns.text(), [&](std::int64_t i, std::string_view event) {
            if (first_seq + i != suspect.seq || static_cast<std::uint8_t>(event.front()) != charged) return;
            differs = difference(row, charge_from(event.substr(1)));
        });
    });
    if (differs.empty()) {
        differs = fmt::format("its seq is {}, and the feed has no charge of that number", suspect.seq);
    } else if (in_range) {
        // This one charge has been named; it is not missing as well.
        charges_[static_cast<std::size_t>(suspect.seq) - 1] = 0;
    }
    findings_.violated(Promise::nothing_twice, row_of("cost_events", org_, {{"key", stored(row.key)}}),
                       std::move(differs));
}

// ---- changes, admissions, ticks -----------------------------------------------------------------------------------

std::int64_t FeedWalk::agent_changed(const std::string& agent) const {
    const auto found = agent_changes_.find(agent);
    return found == agent_changes_.end() ? 0 : found->second;
}

std::int64_t FeedWalk::cap_changed(const std::string& kind, const std::string& name) const {
    const auto found = cap_changes_.find({kind, name});
    return found == cap_changes_.end() ? 0 : found->second;
}

std::int64_t FeedWalk::admitted(Id run, std::int64_t fence) const {
    const auto found = admissions_.find(run);
    return found == admissions_.end() || found->second.fence != fence ? 0 : found->second.seq;
}

// A schedule starts runs for its ticks and for wakes. A tick's run has an id made of the schedule and the tick; a
// wake's has one that its client chose, and its "tick" is the moment it came.
void FeedWalk::read_tick(std::int64_t seq, std::int64_t page_at, std::string_view schedule, std::int64_t at, Id run) {
    auto name = schedules_.find(schedule);
    if (name == schedules_.end()) name = schedules_.emplace(schedule).first;
    const auto violated = [&](std::string what) {
        findings_.violated(Promise::one_tick, row_of("schedules", org_, {{"name", *name}}), std::move(what));
    };

    findings_.checked(Promise::one_tick);
    const Id made_of = id_from_hash(fmt::format("{}@{}", *name, at));
    if (run == time_ordered_id(from_micros(at), made_of.high, made_of.low)) {
        const auto [tick, first] = ticks_.emplace(Tick{&*name, at}, seq);
        if (!first)
            violated(fmt::format("its tick {} fired twice: events {} and {} of the feed", at, tick->second, seq));
    } else if (at != page_at) {
        violated(fmt::format("event {} of the feed started a run for tick {} that is not that tick's", seq, at));
    }
    const auto [_, new_run] = fired_.emplace(run, Fired{&*name, seq});
    if (!new_run) {
        findings_.violated(Promise::one_tick, row_of("runs", org_, {{"id", stored(run)}}),
                           fmt::format("was started by two ticks, the second one is event {} of the feed", seq));
    }
}

const std::string* FeedWalk::fired_by(Id run) {
    const auto found = fired_.find(run);
    if (found == fired_.end()) return nullptr;
    const std::string* schedule = found->second.schedule;
    fired_.erase(found);
    return schedule;
}

void FeedWalk::finish_ticks() {
    for (const auto& [run, fired] : fired_) {
        findings_.violated(Promise::one_tick, row_of("runs", org_, {{"id", stored(run)}}),
                           fmt::format("event {} of the feed says that schedule '{}' started it, and it is not there",
                                       fired.seq, *fired.schedule));
    }
}

}  // namespace interlock::verify
