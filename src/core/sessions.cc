#include "core/sessions.h"

#include <fmt/format.h>
#include <boost/describe/enum_from_string.hpp>

#include "base/ensure.h"
#include "base/text.h"
#include "core/agents.h"
#include "core/check.h"
#include "core/ledger.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

std::optional<Role> role_from(const std::string& text) {
    Role role{};
    const bool ends_here = text.find('\0') == std::string::npos;  // "user" and a NUL is not "user".
    return ends_here && boost::describe::enum_from_string(text.c_str(), role) ? std::optional(role) : std::nullopt;
}

Complaint check(const Append& command) {
    if (command.messages.empty()) return "a turn needs at least one message";
    if (command.messages.size() > limits::messages_per_turn_max) {
        return fmt::format("the turn has {} messages; at most {} are allowed", command.messages.size(),
                           limits::messages_per_turn_max);
    }
    std::size_t bytes = 0;
    for (const NewMessage& message : command.messages) {
        if (message.id.value.empty()) return "a message needs an id";
        if (!role_from(message.role)) {
            return fmt::format("role '{}' is not one of user, assistant, system, tool",
                               as_line(message.role.substr(0, 40)));
        }
        if (auto complaint = first_of(check_text("content", message.content, limits::message_bytes_max),
                                      check_json_object("metadata", message.metadata, limits::metadata_bytes_max))) {
            return complaint;
        }
        if (auto complaint =
                first_of(check_range("input_tokens", message.input_tokens, 0, limits::tokens_per_message_max),
                         check_range("output_tokens", message.output_tokens, 0, limits::tokens_per_message_max))) {
            return complaint;
        }
        bytes += message.content.size() + message.metadata.size();
    }
    return bytes <= limits::turn_bytes_max
               ? Complaint{}
               : fmt::format("the turn has {} bytes; at most {} are allowed", bytes, limits::turn_bytes_max);
}

// What an org, an agent, and an API key that is no operator's may have of sessions that are not closed.
Complaint too_many_sessions(OrgState& state, const std::string& agent, const std::string& api_key) {
    const auto past = [](std::size_t open, std::size_t open_max, std::string_view whose) -> Complaint {
        if (open < open_max) return std::nullopt;
        return fmt::format("{} has {} open sessions; at most {} are allowed; close unused sessions", whose, open,
                           open_max);
    };
    using namespace limits;
    if (auto no = past(state.open_sessions(), open_sessions_per_org_max, "the org")) return no;
    if (!agent.empty()) {
        auto no =
            past(state.open_sessions_of_agent(agent), open_sessions_per_agent_max, fmt::format("agent '{}'", agent));
        if (no) return no;
    }
    if (api_key.empty()) return std::nullopt;
    auto no = past(state.open_sessions_of_key(api_key), open_sessions_per_agent_max,
                   fmt::format("API key '{}' (below operator)", api_key));
    return no && !is_operators_key(state, api_key) ? no : std::nullopt;
}

}  // namespace

SessionReply create_session(OrgState& state, Stamp stamp, const CreateSession& command) {
    Complaint complaint = first_of(check_line("title", command.title),
                                   check_json_object("metadata", command.metadata, limits::metadata_bytes_max));
    if (command.session.value.empty()) complaint = "a session needs an id";
    if (complaint) return {.status = SessionStatus::invalid_request, .session = {}, .detail = *complaint};
    if (state.sessions.find(command.session) != nullptr) {
        return {.status = SessionStatus::session_exists, .session = {}, .detail = "a session with this id exists"};
    }
    if (!command.agent.empty() && working_agent(state, command.agent) == nullptr) {
        return {.status = SessionStatus::agent_not_found,
                .session = {},
                .detail = fmt::format("there is no agent '{}'", command.agent)};
    }
    if (auto no = too_many_sessions(state, command.agent, command.api_key)) {
        return {.status = SessionStatus::too_many, .session = {}, .detail = std::move(*no)};
    }

    // From here on the session must be made.
    state.open_session({.id = command.session,
                        .agent = command.agent,
                        .title = command.title,
                        .metadata = command.metadata,
                        .created_at = stamp.at,
                        .parent = {},
                        .api_key = command.api_key});
    state.feed.add(SessionCreated{command.session, command.agent, {}});
    return {.status = SessionStatus::done, .session = command.session, .detail = {}};
}

AppendReply append(OrgState& state, Stamp stamp, const Append& command) {
    const auto refuse = [](AppendStatus why, std::string detail, std::int64_t next_seq = 0) {
        return AppendReply{
            .status = why, .first_seq = 0, .last_seq = 0, .next_seq = next_seq, .detail = std::move(detail)};
    };

    if (auto complaint = check(command)) return refuse(AppendStatus::invalid_request, *complaint);
    const Session* found = state.sessions.find(command.session);
    if (found == nullptr) return refuse(AppendStatus::session_not_found, "the session does not exist");
    std::int64_t input_tokens = found->input_tokens;
    std::int64_t output_tokens = found->output_tokens;
    for (const NewMessage& message : command.messages) {
        const auto input_sum = checked_sum(input_tokens, message.input_tokens);
        const auto output_sum = checked_sum(output_tokens, message.output_tokens);
        if (!input_sum || !output_sum)
            return refuse(AppendStatus::invalid_request, "the session's token totals would overflow");
        input_tokens = *input_sum;
        output_tokens = *output_sum;
    }
    if (found->closed) return refuse(AppendStatus::session_closed, "the session is closed; fork it to continue");
    switch (check_run(state, command.run, command.fence)) {
        case RunCheck::fine:
            break;
        case RunCheck::run_not_found:
            return refuse(AppendStatus::run_not_found, "the run does not exist");
        case RunCheck::stale_fence:
            return refuse(AppendStatus::stale_fence, "the fence is stale: the run has another owner, or none");
        case RunCheck::run_ended:
            return refuse(AppendStatus::run_ended, "the run is not live");
    }
    if (command.expected_seq && *command.expected_seq != found->next_seq) {
        return refuse(AppendStatus::unexpected_seq,
                      fmt::format("the next message has number {}, not {}", found->next_seq, *command.expected_seq),
                      found->next_seq);
    }

    // From here on the turn must be appended.
    Session& session = state.sessions.edit(command.session);
    const std::int64_t first_seq = session.next_seq;
    for (const NewMessage& message : command.messages) {
        Message& row = state.messages.add();
        row.session = command.session;
        row.seq = session.next_seq++;
        row.id = message.id;
        row.role = *role_from(message.role);
        row.content = message.content;
        row.metadata = message.metadata;
        row.at = stamp.at;
        row.input_tokens = message.input_tokens;
        row.output_tokens = message.output_tokens;
        row.run = command.run;
    }
    session.input_tokens = input_tokens;
    session.output_tokens = output_tokens;
    const std::int64_t last_seq = session.next_seq - 1;
    ensure(last_seq - first_seq + 1 == static_cast<std::int64_t>(command.messages.size()), "invariant (1)");
    state.feed.add(Appended{command.session, first_seq, last_seq, command.run});
    return {.status = AppendStatus::appended,
            .first_seq = first_seq,
            .last_seq = last_seq,
            .next_seq = last_seq + 1,
            .detail = {}};
}

SessionReply fork_session(OrgState& state, Stamp stamp, const ForkSession& command) {
    Complaint complaint = check_line("title", command.title);
    if (command.session.value.empty()) complaint = "a session needs an id";
    if (complaint) return {.status = SessionStatus::invalid_request, .session = {}, .detail = *complaint};
    const Session* from = state.sessions.find(command.from);
    if (from == nullptr)
        return {.status = SessionStatus::session_not_found, .session = {}, .detail = "the session does not exist"};
    if (state.sessions.find(command.session) != nullptr) {
        return {.status = SessionStatus::session_exists, .session = {}, .detail = "a session with this id exists"};
    }
    if (command.at_seq < 0 || command.at_seq >= from->next_seq) {
        return {.status = SessionStatus::message_not_found,
                .session = {},
                .detail = fmt::format("the session has {} messages and no message {}", from->next_seq, command.at_seq)};
    }
    if (auto no = too_many_sessions(state, from->agent, command.api_key)) {
        return {.status = SessionStatus::too_many, .session = {}, .detail = std::move(*no)};
    }

    // From here on the fork must be made. What an older version stored is not copied where it would be refused today.
    // A fork of inherited messages hangs on the session that owns them, so that a
    // chain of forks is never longer than the sessions that added something.
    Session fork{
        .id = command.session,
        .agent = from->agent,
        .title = command.title.empty() ? as_line(from->title) : command.title,
        .metadata = check_json_object("metadata", from->metadata, limits::metadata_bytes_max) ? "" : from->metadata,
        .created_at = stamp.at,
        .parent = command.from,
        .first_seq = command.at_seq + 1,
        .next_seq = command.at_seq + 1,
        .api_key = command.api_key};
    for (const Session* owner = from; owner != nullptr && command.at_seq < owner->first_seq;) {
        fork.parent = owner->parent;
        owner = state.sessions.find(owner->parent);
    }
    state.feed.add(SessionCreated{fork.id, fork.agent, fork.parent});
    state.open_session(std::move(fork));
    return {.status = SessionStatus::done, .session = command.session, .detail = {}};
}

SessionReply close_session(OrgState& state, Stamp, const CloseSession& command) {
    const Session* found = state.sessions.find(command.session);
    if (found == nullptr)
        return {.status = SessionStatus::session_not_found, .session = {}, .detail = "the session does not exist"};
    if (found->closed) return {.status = SessionStatus::unchanged, .session = command.session, .detail = {}};

    // From here on it must close.
    state.close_session(command.session);
    state.feed.add(SessionClosed{command.session});
    return {.status = SessionStatus::done, .session = command.session, .detail = {}};
}

}  // namespace interlock::core
