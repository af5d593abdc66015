// Rows for tests: plain ones to tell a story with, and extreme ones that try what a column can hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/describe/enumerators.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "core/key_of.h"
#include "core/rows.h"

namespace interlock::store::sample {

// ---- plain rows ---------------------------------------------------------------------------------------------------

inline Id id(std::uint64_t number) { return time_ordered_id(from_micros(1'700'000'000'000'000), 0, number); }

inline core::Org org() {
    core::Org row;
    row.name = "org";
    row.created_at = from_micros(1);
    row.former_keys_until = from_micros(2);
    return row;
}
inline core::Agent agent(const std::string& name) {
    core::Agent row;
    row.name = name;
    return row;
}
inline core::AgentTotals agent_totals(const std::string& name) {
    core::AgentTotals row;
    row.agent = name;
    return row;
}
inline core::ApiKey api_key(const std::string& name) {
    core::ApiKey row;
    row.id = name;
    return row;
}
inline core::Budget budget(const std::string& name) {
    core::Budget row;
    row.name = name;
    row.limit_units = 1000;
    return row;
}
inline core::Schedule schedule(const std::string& name, const std::string& agent_name) {
    core::Schedule row;
    row.name = name;
    row.agent = agent_name;
    row.every_s = 60;
    return row;
}
inline core::Session session(std::uint64_t number) {
    core::Session row;
    row.id = core::SessionId(id(number));
    row.title = "a session";
    return row;
}
inline core::Message message(std::uint64_t session_number, std::int64_t seq) {
    core::Message row;
    row.session = core::SessionId(id(session_number));
    row.seq = seq;
    row.content = "hello";
    return row;
}
inline core::Run run(std::uint64_t number, const std::string& agent_name) {
    core::Run row;
    row.id = core::RunId(id(number));
    row.who.run = row.id;
    row.who.agent = agent_name;
    row.state = core::RunState::running;
    row.fence = core::Fence(1);
    return row;
}
inline core::Claim claim(std::uint64_t run_number, std::int32_t number) {
    core::Claim row;
    row.run = core::RunId(id(run_number));
    row.number = number;
    row.place.host = "host";
    row.place.path = "/srv/" + std::to_string(run_number) + "/" + std::to_string(number);
    row.fence = core::Fence(1);
    return row;
}
inline core::Hold hold(std::uint64_t number) {
    core::Hold row;
    row.id = core::HoldId(id(number));
    row.bound.usd = 5;
    row.parts = {{.budget = "daily", .window = from_micros(86'400), .amount = 5, .drawn = 0}};
    return row;
}
inline core::CostEvent cost_event(std::uint64_t number) {
    core::CostEvent row;
    row.key = core::CommandKey(id(number));
    row.seq = core::Seq(static_cast<std::int64_t>(number));
    row.at = row.counted_at = from_micros(1'700'000'000'000'000);
    row.cost = 750'000;
    return row;
}
inline core::StoredReply answer(std::uint64_t number) {
    core::StoredReply row;
    row.key = core::CommandKey(id(number));
    row.reply = std::string("\0reply\xFF", 7);
    return row;
}
inline core::FeedPage feed_page(std::int64_t first_seq, std::int64_t last_seq) {
    core::FeedPage row;
    row.first_seq = core::Seq(first_seq);
    row.last_seq = core::Seq(last_seq);
    row.body = std::string("\0body\xFF", 6);
    row.hash = std::string(32, '\0');
    return row;
}
inline core::Seal seal(std::int64_t number) {
    core::Seal row;
    row.number = number;
    row.key_id = std::string("\0key id\xFF", 8);
    row.digests = std::string("\0digests\xFF", 9);
    row.hash = std::string(32, '\0');
    return row;
}
inline core::Attribution attribution() {
    core::Attribution who;
    who.agent = "agent";
    who.workflow = "workflow";
    who.provider = "provider";
    who.model = "model";
    who.api_key = "key";
    who.run = core::RunId(id(1001));
    who.session = core::SessionId(id(1002));
    who.tags = {{"team", "red"}, {"ticket", "42"}};
    return who;
}

// ---- extreme rows -------------------------------------------------------------------------------------------------

// 0: ordinary. 1: the greatest, and text that wants escaping. 2: the least, and nothing. 3: much.
constexpr std::uint64_t variants = 4;

inline std::string text(std::uint64_t variant) {
    static constexpr char wild[] = "\0\x01\x1f\"\\/\n{}[],: ä€😀 \xff\xc3(";
    switch (variant) {
        case 0:
            return "text";
        case 1:
            return std::string(wild, sizeof wild - 1);
        case 2:
            return "";
        default:
            return std::string(10'000, 'x') + "ende";
    }
}

template <class T>
void fill(T& value, std::uint64_t variant) {
    using namespace codec_detail;
    if constexpr (std::is_same_v<T, std::string>) {
        value = text(variant);
    } else if constexpr (std::is_same_v<T, bool>) {
        value = variant % 2 == 1;
    } else if constexpr (std::is_enum_v<T>) {
        using Enumerators = boost::describe::describe_enumerators<T>;
        std::size_t index = 0;
        boost::mp11::mp_for_each<Enumerators>([&](auto enumerator) {
            if (index++ == variant % boost::mp11::mp_size<Enumerators>::value) value = enumerator.value;
        });
    } else if constexpr (std::is_same_v<T, Instant>) {
        value = from_micros(
            std::array{std::int64_t{1'700'000'000'123'456}, INT64_MAX, INT64_MIN, micros(far_future)}[variant]);
    } else if constexpr (std::is_same_v<T, Id>) {
        value = std::array{id(7), Id{UINT64_MAX, UINT64_MAX}, Id{}, Id{1, 0}}[variant];
    } else if constexpr (std::is_integral_v<T>) {
        value = std::array{T{7}, std::numeric_limits<T>::max(), T{0}, T{1}}[variant];
    } else if constexpr (IsStrong<T>::value) {
        fill(value.value, variant);
    } else if constexpr (IsVector<T>::value) {
        value.clear();
        value.resize(std::array{1u, 3u, 0u, 300u}[variant]);
        for (auto& element : value) fill(element, variant == 3 ? 1 : variant);
    } else if constexpr (IsMap<T>::value) {
        value.clear();
        if (variant != 2) fill(value[text(variant)], variant);
        for (int i = 0; variant == 3 && i < 300; ++i) fill(value[std::to_string(i)], 1);
    } else {
        boost::mp11::mp_for_each<MembersOf<T>>([&](auto member) { fill(value.*member.pointer, variant); });
    }
}

inline std::vector<core::Agent> agents_of_extremes() {
    return {agent(text(0)), agent(text(1)), agent(text(3)), agent("worker")};
}

inline void fill_empty(std::string& name) {
    if (name.empty()) name = "worker";
}

// What the tables refuse is put right; where they allow more than `fill` tries, that is tried.
inline void make_valid(core::Org&, std::uint64_t) {}
inline void make_valid(core::Agent& row, std::uint64_t) { fill_empty(row.name); }
inline void make_valid(core::AgentTotals& row, std::uint64_t) { fill_empty(row.agent); }
inline void make_valid(core::ApiKey& row, std::uint64_t) { fill_empty(row.id); }
inline void make_valid(core::Cap& row, std::uint64_t) {
    if (row.kind == core::CapKind::org) row.name.clear();
    if (row.kind != core::CapKind::org) fill_empty(row.name);
}
inline void make_valid(core::Budget& row, std::uint64_t) {
    fill_empty(row.name);
    fill_empty(row.zone);
}
inline void make_valid(core::Window& row, std::uint64_t variant) {
    fill_empty(row.budget);
    if (variant == 1) row.start_at -= Duration(1);
    if (variant != 1) row.end_at += Duration(1);
}
inline void make_valid(core::Session& row, std::uint64_t variant) {
    if (variant == 3) row.first_seq = row.next_seq = 1;
}
inline void make_valid(core::Message&, std::uint64_t) {}
inline void make_valid(core::Run& row, std::uint64_t variant) {
    fill_empty(row.who.agent);
    if (row.state == core::RunState::queued) row.fence = core::Fence(0);
    if (row.state != core::RunState::queued && row.fence.value == 0) row.fence = core::Fence(1);
    if (variant == 2) row.priority = INT32_MIN;
    row.attempt = std::max(1, row.attempt);
    row.exit_code = variant == 1 ? 255 : -1;
}
inline void make_valid(core::Claim& row, std::uint64_t) {
    fill_empty(row.place.path);
    if (row.fence.value == 0) row.fence = core::Fence(1);
}
inline void make_valid(core::Hold&, std::uint64_t) {}
inline void make_valid(core::CostEvent& row, std::uint64_t variant) {
    if (variant == 2) row.fingerprint = std::uint64_t{1} << 63;
    if (row.seq.value == 0) row.seq = core::Seq(1);
}
inline void make_valid(core::Rollup& row, std::uint64_t variant) {
    if (variant == 2) row.day = INT32_MIN;
}
inline void make_valid(core::Schedule& row, std::uint64_t variant) {
    fill_empty(row.name);
    fill_empty(row.agent);
    fill_empty(row.zone);
    row.every_s = row.cron.empty() ? INT64_MAX : 0;
    if (variant == 2) row.priority = INT32_MIN;
}
inline void make_valid(core::StoredReply&, std::uint64_t) {}
inline void make_valid(core::FeedPage& row, std::uint64_t) {
    if (row.first_seq.value == 0) row.first_seq = row.last_seq = core::Seq(1);
    row.hash.resize(32, '\xAB');
    row.seal_number = std::max<std::int64_t>(0, row.seal_number);
}

inline void make_valid(core::Launch&, std::uint64_t) {}
inline void make_valid(core::Worktree& row, std::uint64_t) {
    fill_empty(row.path);
    row.state = row.saved_as.empty() ? core::WorktreeState::open : core::WorktreeState::saved;
}

inline void make_valid(core::Setting& row, std::uint64_t) {
    fill_empty(row.kind);
    fill_empty(row.name);
    if (row.version == 0) row.version = 1;
}
inline void make_valid(core::ModelCall&, std::uint64_t) {}
inline void make_valid(core::SpendMark& row, std::uint64_t) {
    if (row.budget.empty()) row.start_at = far_past;
    row.at = std::max(row.at, row.start_at);
}
inline void make_valid(core::RunStep& row, std::uint64_t) { row.number = std::max<std::int64_t>(1, row.number); }
inline void make_valid(core::ScheduleTick& row, std::uint64_t) {
    fill_empty(row.schedule);
    row.number = std::max<std::int64_t>(1, row.number);
    row.outcome = row.run.value.empty() ? core::TickOutcome::skipped : core::TickOutcome::fired;
}

inline void make_valid(core::CorrectedCost&, std::uint64_t) {}
inline void make_valid(core::Seal& row, std::uint64_t) {
    row.number = std::max<std::int64_t>(1, row.number);
    row.key_id.resize(8, '\xAB');
    row.hash.resize(32, '\xAB');
}

// The rows of one variant refer to each other as the tables demand: all ids are the same, and so are all names.
template <class Row>
Row extreme(std::uint64_t variant) {
    Row row;
    fill(row, variant);
    make_valid(row, variant);
    return row;
}

}  // namespace interlock::store::sample
