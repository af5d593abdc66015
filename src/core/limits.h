// What is too much. Every bound a client can meet, by name; refusals say which one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace interlock::core::limits {

constexpr std::size_t name_bytes_max = 128;
constexpr std::size_t text_bytes_max = 4096;  // Reasons, notes, titles, paths.
constexpr std::size_t tags_max = 32;
constexpr std::size_t command_words_max = 256;
constexpr std::size_t message_bytes_max = 4u << 20;
constexpr std::size_t metadata_bytes_max = 64u << 10;
// So that no message fills its session's counters: they take 9 million of the largest.
constexpr std::int64_t tokens_per_message_max = 1'000'000'000'000;
constexpr std::size_t messages_per_turn_max = 1000;
constexpr std::size_t turn_bytes_max = 16u << 20;
constexpr std::size_t claims_per_run_max = 32;
constexpr std::size_t place_depth_max = 256;
constexpr std::size_t warn_thresholds_max = 16;
constexpr std::size_t agents_per_org_max = 100'000;
constexpr std::size_t roots_per_agent_max = 32;
constexpr std::size_t budgets_per_org_max = 100'000;
constexpr std::size_t schedules_per_org_max = 100'000;
constexpr std::size_t keys_per_org_max = 100'000;
constexpr std::size_t caps_per_org_max = 10'000;
constexpr std::size_t worktrees_per_org_max = 100'000;
constexpr std::size_t settings_per_org_max = 10'000;
constexpr std::size_t setting_bytes_max = 64u << 10;
constexpr std::size_t calls_per_record_max = 10'000;
constexpr std::size_t environment_max = 256;
constexpr std::size_t allowed_hosts_max = 256;
constexpr std::int64_t timeout_s_max = 30 * 24 * 3600;
constexpr std::int32_t grace_s_max = 3600;
constexpr std::int32_t tries_max = 100;
constexpr std::int32_t backoff_s_max = 24 * 3600;
// Worktrees get blocks of ports below those that systems give out by themselves.
constexpr std::int32_t ports_first = 20'000;
constexpr std::int32_t ports_end = 32'760;
constexpr std::int32_t ports_per_worktree = 10;
constexpr std::size_t orgs_max = 10'000;
// What one agent, or one API key that is no operator's, may have of what an org may have: so none of them uses up the
// rest.
constexpr std::size_t unfinished_runs_per_org_max = 100'000;  // Queued and live.
constexpr std::size_t unfinished_runs_per_agent_max = 20'000;
// Runs that programs of runs have started. Their ends, and sums over them, are part of one command.
constexpr std::size_t run_depth_max = 4;                   // Runs above one another, the first one not counted.
constexpr std::size_t unfinished_runs_per_tree_max = 100;  // Below one run that no run has started.
constexpr std::size_t child_agents_max = 32;
constexpr std::size_t open_holds_per_org_max = 600'000;
constexpr std::size_t open_holds_per_agent_max = 200'000;
// Sessions that are not closed. They are on disk only, so an org may have more of them than of runs and holds. An agent
// of 100 sessions an hour that closes none gets to its bound after six weeks.
constexpr std::size_t open_sessions_per_org_max = 1'000'000;
constexpr std::size_t open_sessions_per_agent_max = 100'000;
// The end of a run ends its open holds in one command, during which no other command of the node goes on: 0.1 s.
constexpr std::size_t open_holds_per_run_max = 10'000;
// What an API key below operator may state for a run.
constexpr std::int32_t priority_below_operator_max = 100;
constexpr std::int32_t lease_s_below_operator_max = 3600;
// Of one cost event, and of one hold.
constexpr std::int64_t nanos_per_event_max = 1'000'000'000'000'000;  // A million dollars.
constexpr std::int64_t tokens_per_event_max = 1'000'000'000'000;
constexpr std::int64_t calls_per_event_max = 1'000'000;
// Counters of what was spent stop here, which is two billion dollars, and lead to no refusal. What an agent holds, or
// an API key that is no operator's, is at most a tenth of it. So settled + held + one event always fits 64 bits.
constexpr std::int64_t counter_max = 2'000'000'000'000'000'000;
constexpr std::int64_t held_max = 2'000'000'000'000'000'000;
constexpr std::int64_t held_per_agent_max = 200'000'000'000'000'000;
constexpr std::int32_t concurrent_runs_max = 100'000;
constexpr std::int64_t lease_s_max = 24 * 3600;
constexpr std::int64_t ttl_s_max = 24 * 3600;
constexpr std::int64_t queue_s_max = 30 * 24 * 3600;
constexpr std::int64_t interval_s_max = 366 * 24 * 3600;
constexpr std::int32_t missed_ticks_max = 1000;
// One tick does at most this much; what is left is due at once again. So a pile of expiries cannot stall the lane.
constexpr std::size_t expiries_per_tick_max = 10'000;

}  // namespace interlock::core::limits
