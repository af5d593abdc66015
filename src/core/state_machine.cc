#include "core/state_machine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/codec.h"
#include "base/ensure.h"
#include "core/agents.h"
#include "core/budgets.h"
#include "core/check.h"
#include "core/expected.h"
#include "core/hosts.h"
#include "core/ledger.h"
#include "core/limits.h"
#include "core/runs.h"
#include "core/schedules.h"
#include "core/sessions.h"
#include "core/settings.h"
#include "core/worktrees.h"

namespace interlock::core {
namespace {

// How long a hold lives at least after we were away, since its owner could not extend it meanwhile: as long as it was
// made for, but no more than this.
constexpr Duration reopen_grace_max = std::chrono::seconds(60);

TickReply tick(OrgState& state, Stamp stamp) {
    TickReply reply;
    for (std::size_t done = 0; done < limits::expiries_per_tick_max; ++done) {
        const auto deadline = state.first_deadline();
        if (!deadline || deadline->at > stamp.at) break;
        switch (deadline->kind) {
            case DeadlineKind::hold_expires:
                expire_hold(state, stamp, HoldId(deadline->id));
                ++reply.expired_holds;
                break;
            case DeadlineKind::lease_ends:
                done += state.held_in_run(RunId(deadline->id)).holds;  // They end with it.
                end_lease(state, stamp, RunId(deadline->id));
                ++reply.lost_runs;
                break;
            case DeadlineKind::queue_ends:
                end_queueing(state, stamp, RunId(deadline->id));
                break;
            case DeadlineKind::pause_ends:
                if (lift_ended_pauses(state, stamp, deadline->name)) ++reply.resumed_agents;
                state.line_may_move = true;
                break;
            case DeadlineKind::schedule_due:
                reply.fired += fire(state, stamp, deadline->name);
                break;
            case DeadlineKind::line_may_move:
                state.line_may_move = true;
                break;
        }
        state.forget(*deadline);
    }
    return reply;
}

TickReply reopened(OrgState& state, Stamp stamp) {
    restart_leases(state, stamp);
    for (const HoldId id : state.open_holds()) {
        const Hold& hold = *state.hold(id);
        const Instant grace_ends = stamp.at + std::min(reopen_grace_max, hold.expires_at - hold.created_at);
        if (hold.expires_at >= grace_ends) continue;
        state.change_hold(id, [&](Hold& open) { open.expires_at = grace_ends; });
    }
    state.line_may_move = true;
    return {};
}

// Which rule a command is for.
struct Apply {
    OrgState& state;
    Stamp stamp;
    const Command& command;

    Reply operator()(const CreateOrg& body) { return create_org(state, stamp, body); }
    Reply operator()(const PutAgent& body) { return put_agent(state, stamp, body); }
    Reply operator()(const PauseAgent& body) { return pause_agent(state, stamp, body); }
    Reply operator()(const ResumeAgent& body) { return resume_agent(state, stamp, body); }
    Reply operator()(const ArchiveAgent& body) { return archive_agent(state, stamp, body); }
    Reply operator()(const CreateKey& body) { return create_key(state, stamp, body); }
    Reply operator()(const RevokeKey& body) { return revoke_key(state, stamp, body); }
    Reply operator()(const SetCap& body) { return set_cap(state, stamp, body); }
    Reply operator()(const PutBudget& body) { return put_budget(state, stamp, body); }
    Reply operator()(const DeleteBudget& body) { return delete_budget(state, stamp, body); }
    Reply operator()(const UnfreezeBudget& body) { return unfreeze_budget(state, stamp, body); }
    Reply operator()(const Charge& body) { return charge(state, stamp, body, command.key, command.fingerprint); }
    Reply operator()(const Reserve& body) { return reserve(state, stamp, body); }
    Reply operator()(const ExtendHold& body) { return extend_hold(state, stamp, body); }
    Reply operator()(const SettleHold& body) {
        return settle_hold(state, stamp, body, command.key, command.fingerprint);
    }
    Reply operator()(const ReleaseHold& body) { return release_hold(state, stamp, body); }
    Reply operator()(const CreateSession& body) { return create_session(state, stamp, body); }
    Reply operator()(const Append& body) { return append(state, stamp, body); }
    Reply operator()(const ForkSession& body) { return fork_session(state, stamp, body); }
    Reply operator()(const CloseSession& body) { return close_session(state, stamp, body); }
    Reply operator()(const AdmitRun& body) { return admit_run(state, stamp, body); }
    Reply operator()(const StartRun& body) { return start_run(state, stamp, body); }
    Reply operator()(const HeartbeatRun& body) { return heartbeat_run(state, stamp, body); }
    Reply operator()(const PauseRun& body) { return pause_run(state, stamp, body); }
    Reply operator()(const ResumeRun& body) { return resume_run(state, stamp, body); }
    Reply operator()(const FinishRun& body) { return finish_run(state, stamp, body); }
    Reply operator()(const CancelRun& body) { return cancel_run(state, stamp, body); }
    Reply operator()(const LoseRun& body) { return lose_run(state, stamp, body); }
    Reply operator()(const PutSchedule& body) { return put_schedule(state, stamp, body); }
    Reply operator()(const DeleteSchedule& body) { return delete_schedule(state, stamp, body); }
    Reply operator()(const Wake& body) { return wake(state, stamp, body); }
    Reply operator()(const Tick&) { return tick(state, stamp); }
    Reply operator()(const Reopened&) { return reopened(state, stamp); }
    Reply operator()(const PutWorktree& body) { return put_worktree(state, stamp, body); }
    Reply operator()(const DropWorktree& body) { return drop_worktree(state, stamp, body); }
    Reply operator()(const EnableSchedule& body) { return enable_schedule(state, stamp, body); }
    Reply operator()(const PutSetting& body) { return put_setting(state, stamp, body); }
    Reply operator()(const DropSetting& body) { return drop_setting(state, stamp, body); }
    Reply operator()(const CorrectCharge& body) {
        return correct_charge(state, stamp, body, command.key, command.fingerprint);
    }
    Reply operator()(const RecordCalls& body) { return record_calls(state, body, command.key); }
    Reply operator()(const RestatePlaces& body) { return restate_places(state, stamp, body); }
    Reply operator()(const RecordConnection& body) { return record_connection(state, body); }
};

// Whether the command did what it asked: the successes come first in every status, one or two of them.
struct Succeeded {
    bool operator()(const OrgReply& reply) { return reply.status <= OrgStatus::already_there; }
    bool operator()(const AgentReply& reply) { return reply.status <= AgentStatus::unchanged; }
    bool operator()(const KeyReply& reply) { return reply.status <= KeyStatus::unchanged; }
    bool operator()(const CapReply& reply) { return reply.status <= CapStatus::unchanged; }
    bool operator()(const BudgetReply& reply) { return reply.status <= BudgetStatus::unchanged; }
    bool operator()(const ChargeReply& reply) { return reply.status == ChargeStatus::charged; }
    bool operator()(const ReserveReply& reply) { return reply.status == ReserveStatus::held; }
    bool operator()(const HoldReply& reply) { return reply.status == HoldStatus::done; }
    bool operator()(const SettleReply& reply) { return reply.status == HoldStatus::done; }
    bool operator()(const SessionReply& reply) { return reply.status <= SessionStatus::unchanged; }
    bool operator()(const AppendReply& reply) { return reply.status == AppendStatus::appended; }
    bool operator()(const AdmitReply& reply) { return reply.status <= AdmitStatus::queued; }
    bool operator()(const RunReply& reply) { return reply.status <= RunStatus::stop_requested; }
    bool operator()(const ScheduleReply& reply) { return reply.status <= ScheduleStatus::unchanged; }
    bool operator()(const WakeReply& reply) { return reply.status <= WakeStatus::coalesced; }
    bool operator()(const TickReply&) { return false; }  // Nobody asks twice what the time is.
    bool operator()(const NoSuchOrg&) { return false; }
    bool operator()(const WorktreeReply& reply) { return reply.status <= WorktreeStatus::unchanged; }
    bool operator()(const SettingReply& reply) { return reply.status <= SettingStatus::unchanged; }
    bool operator()(const CallsReply& reply) { return reply.status == CallsStatus::recorded; }
    bool operator()(const CorrectReply& reply) { return reply.status == CorrectStatus::corrected; }
};

// What was answered when this event was made.
Reply reply_from(const CostEvent& event) {
    if (!event.corrects.value.empty() && event.hold.value.empty()) {
        return CorrectReply{
            .status = CorrectStatus::corrected, .seq = event.seq, .cost = Money::nanos(event.cost), .detail = {}};
    }
    if (event.hold.value.empty()) {
        return ChargeReply{.status = ChargeStatus::charged,
                           .seq = event.seq,
                           .cost = Money::nanos(event.cost),
                           .overage = Money::nanos(event.overage),
                           .budget = {},
                           .detail = {}};
    }
    return SettleReply{.status = HoldStatus::done,
                       .seq = event.seq,
                       .cost = Money::nanos(event.cost),
                       .overage = Money::nanos(event.overage),
                       .detail = {}};
}

}  // namespace

bool succeeded(const Reply& reply) { return std::visit(Succeeded{}, reply); }

namespace {

// A command as it was meant. The id of what it makes is left out: it is drawn anew for each attempt, and a repeat is
// answered with the first one.
struct Meaning {
    Encoder encoder;
    bool with_api_key = false;  // As older versions did.

    // Nor is who asks: a retry with another API key, after one was rotated, is the same command.
    void put_who(const Attribution& who) {
        put_all(who.agent, who.workflow, who.provider, who.model, with_api_key ? who.api_key : std::string(), who.run,
                who.session, who.tags);
    }
    void put(const Charge& command) {
        put_who(command.who);
        put_all(command.fence, command.cost, command.usage, command.calls, command.price, command.incurred,
                command.unpriced);
    }
    void put(AdmitRun command) {
        // Nor is what the system found at a path: the client wrote the path.
        for (Place& place : command.places) place.chain.clear();
        if (command.isolate_into) command.isolate_into->chain.clear();
        if (command.worktrees) command.worktrees->chain.clear();
        encoder.put(RunId());
        put_who(command.who);
        put_all(command.node, command.places, command.on_conflict, command.isolate_into, command.priority, command.hold,
                command.metered, command.lease_s, command.queue_s, command.name, command.process, command.retry,
                command.ceiling, command.isolate, command.worktrees);
        if (!command.parent.value.empty()) put_all(command.parent);
    }
    void put(CreateKey command) {
        command.hash.clear();
        put_without(command, command.id);
    }
    void put(const Reserve& command) {
        encoder.put(HoldId());
        put_who(command.who);
        put_all(command.fence, command.bound, command.ttl_s, command.dispatched, command.floor, command.share);
    }
    void put(const ExtendHold& command) { put_all(command.hold, command.ttl_s, command.dispatched); }
    void put(const SettleHold& command) {
        put_all(command.hold, command.cost, command.usage, command.calls, command.price, command.estimated,
                command.unpriced);
    }
    void put(const ReleaseHold& command) { put_all(command.hold); }
    void put(const CreateSession& command) { put_all(SessionId(), command.agent, command.title, command.metadata); }
    void put(const ForkSession& command) { put_all(command.from, command.at_seq, SessionId(), command.title); }
    void put(const PutAgent& command) {
        put_all(command.name, command.command, command.max_concurrent_runs, command.tags, command.process,
                command.retry, command.workplace, command.provider, command.capture);
        if (!command.roots.empty()) put_all(command.roots);
        if (!command.child_agents.empty()) put_all(std::string("child_agents"), command.child_agents);
    }
    void put(Wake command) { put_without(command, command.run); }
    void put(const Append& command) {
        encoder.put(command.session);
        for (const NewMessage& message : command.messages) {
            encoder.put(message.role);
            encoder.put(message.content);
            encoder.put(message.metadata);
            encoder.put(message.input_tokens);
            encoder.put(message.output_tokens);
        }
        encoder.put(command.expected_seq);
        encoder.put(command.run);
        encoder.put(command.fence);
    }
    template <class Body>
    void put(const Body& command) {
        encoder.put(command);
    }

    template <class... Members>
    void put_all(const Members&... members) {
        (encoder.put(members), ...);
    }
    template <class Body, class MadeId>
    void put_without(Body& command, MadeId& made) {
        made = {};
        encoder.put(command);
    }
};

}  // namespace

namespace {

std::uint64_t fingerprint(const CommandBody& body, bool with_api_key) {
    std::string bytes;
    bytes.reserve(256);
    Meaning meaning{Encoder(bytes), with_api_key};
    meaning.encoder.put(static_cast<std::uint64_t>(body.index()));
    std::visit([&](const auto& command) { meaning.put(command); }, body);
    // As FNV-1a, but for eight bytes at a time; the shift brings the high ones of a product down to the next.
    std::uint64_t hash = 0xCBF2'9CE4'8422'2325ull;
    const auto add = [&hash](std::uint64_t word) {
        hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15ull;
        hash ^= hash >> 32;
    };
    const std::size_t size = bytes.size();
    bytes.append(-size % sizeof hash, '\0');
    for (std::size_t at = 0; at < bytes.size(); at += sizeof hash) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, sizeof word);
        add(word);
    }
    add(size);
    return hash;
}

// Older versions counted the API key as content.
bool is_repeat(const Command& command, std::uint64_t stored) {
    return stored == command.fingerprint || stored == fingerprint(command.body, true);
}

}  // namespace

std::uint64_t fingerprint_of(const CommandBody& body) { return fingerprint(body, false); }

Applied StateMachine::apply(Stamp stamp, const Command& command) {
    const auto found = orgs_.find(command.org);
    const bool makes_org = std::holds_alternative<CreateOrg>(command.body);
    if (found == orgs_.end() || !found->second->org) {
        if (!makes_org) return {.reply = NoSuchOrg{}};
        const bool full = found == orgs_.end() && orgs_.size() >= limits::orgs_max;
        if (full && !check_name("name", std::get<CreateOrg>(command.body).name)) {
            return {.reply = OrgReply{OrgStatus::too_many, fmt::format("there are at most {} orgs", limits::orgs_max)}};
        }
    }
    OrgState& state = org(command.org);
    if (!command.key.value.empty() && recent_keys_.seen(command.org, command.key) != RecentKeys::Seen::no) {
        if (auto answer = find_under(state, command.key, command)) return std::move(*answer);
    }
    if (may_be_former(state, stamp, command)) {
        if (auto answer = find_former(state, command)) return std::move(*answer);
    }
    // Time does not go back for an org, whatever the clock does: windows and leases stand on it.
    stamp.at = std::max(stamp.at, state.feed.last_at());
    Applied applied{.reply = std::visit(Apply{state, stamp, command}, command.body)};
    if (!state.org) {
        orgs_.erase(command.org);  // It was not made, so nothing is known of it.
        return applied;
    }
    if (state.line_may_move) {
        state.line_may_move = false;
        if (!state.line().empty()) promote(state, stamp);
    }
    if (command.key.value.empty() || !succeeded(applied.reply)) return applied;
    recent_keys_.add(command.org, command.key);
    if (!makes_cost_event(command.body)) {
        StoredReply& answer = state.answers.add();
        answer.key = command.key;
        answer.fingerprint = command.fingerprint;
        answer.at = stamp.at;
        Encoder(answer.reply).put(applied.reply);
    }
    return applied;
}

void StateMachine::prefetch(Stamp stamp, const std::vector<const Command*>& commands) {
    std::map<OrgId, std::vector<ColdRow>> rows;
    for (const Command* command : commands) {
        const auto found = orgs_.find(command->org);
        if (found == orgs_.end()) continue;
        std::vector<ColdRow>& wanted = rows[command->org];
        if (!command->key.value.empty() && recent_keys_.seen(command->org, command->key) != RecentKeys::Seen::no) {
            wanted.emplace_back(with_key<CostEvent>(command->key));
            wanted.emplace_back(with_key<StoredReply>(command->key));
        }
        if (may_be_former(*found->second, stamp, *command)) {
            wanted.emplace_back(with_key<CostEvent>(command->former));
            wanted.emplace_back(with_key<StoredReply>(command->former));
        }
        add_expected(*found->second, stamp, command->body, wanted);
    }
    for (auto& [org, wanted] : rows) {
        if (!wanted.empty()) source_.prefetch(org, std::move(wanted));
    }
}

std::optional<Applied> StateMachine::find_answer(const Command& command) {
    const auto found = orgs_.find(command.org);
    if (command.key.value.empty() || found == orgs_.end()) return std::nullopt;
    OrgState& state = *found->second;
    if (auto answer = find_under(state, command.key, command)) return answer;
    const bool has_former = !command.former.value.empty() && state.org && state.org->former_keys_until != Instant{};
    return has_former ? find_former(state, command) : std::nullopt;
}

bool StateMachine::may_be_former(const OrgState& state, Stamp stamp, const Command& command) const {
    return state.org && stamp.at < state.org->former_keys_until && !command.former.value.empty() &&
           recent_keys_.seen(command.org, command.former) != RecentKeys::Seen::no;
}

std::optional<Applied> StateMachine::find_former(OrgState& state, const Command& command) {
    // Another agent's charge: it chose the same text when all agents shared one space.
    const auto event = state.cost_events.find(command.former);
    const auto* charge = std::get_if<Charge>(&command.body);
    if (event && charge != nullptr && event->who.agent != charge->who.agent) return std::nullopt;
    return find_under(state, command.former, command);
}

std::optional<Applied> StateMachine::find_under(OrgState& state, CommandKey key, const Command& command) {
    if (const auto event = state.cost_events.find(key)) {
        if (!is_repeat(command, event->fingerprint)) return Applied{.reply = {}, .key_reused = true};
        return Applied{.reply = reply_from(*event), .repeated = true};
    }
    if (const auto answer = state.answers.find(key)) {
        if (!is_repeat(command, answer->fingerprint)) return Applied{.reply = {}, .key_reused = true};
        auto reply = decode<Reply>(answer->reply);
        ensure(reply.has_value(), "what we wrote we can read");
        return Applied{.reply = std::move(*reply), .repeated = true};
    }
    return std::nullopt;
}

std::optional<Instant> StateMachine::next_deadline() const {
    std::optional<Instant> first;
    for (const auto& [id, state] : orgs_) {
        const auto deadline = state->first_deadline();
        if (deadline && (!first || deadline->at < *first)) first = deadline->at;
    }
    return first;
}

OrgState& StateMachine::org(OrgId id) {
    auto& state = orgs_[id];
    if (!state) state = std::make_unique<OrgState>(id, source_);
    return *state;
}

void StateMachine::forget_everything(Id newest_key) {
    orgs_.clear();
    recent_keys_.forget_all(newest_key);
}

}  // namespace interlock::core
