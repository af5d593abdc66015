// P4, one order: messages are numbered without gap, stand where their writers were told, and turns stay whole.
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "sim/checker.h"

namespace interlock::sim {
namespace {

using namespace core;

class SessionsChecker : public Checker {
 public:
    void heard(World& world, const Call& call, const engine::SubmitResult& answer) override;
    void check(World& world, const Rows& rows) override;

 private:
    struct Told {
        std::uint32_t call;
        std::int64_t first_seq;
    };
    void check_numbers(World& world, const Rows& rows);
    void check_told(World& world, const Rows& rows);

    std::vector<Told> told_;
    std::map<std::tuple<OrgId, SessionId, std::int64_t>, std::uint32_t> writer_of_;
};

void SessionsChecker::heard(World& world, const Call& call, const engine::SubmitResult& answer) {
    const auto* append = std::get_if<Append>(&call.command.body);
    if (append == nullptr || !answer || !says_done(answer->reply)) return;
    const auto& reply = std::get<AppendReply>(answer->reply);
    const auto count = static_cast<std::int64_t>(append->messages.size());
    if (reply.last_seq - reply.first_seq + 1 != count || reply.next_seq != reply.last_seq + 1) {
        world.violated(Promise::one_order, fmt::format("call {} appended {} messages as {} to {}", call.id, count,
                                                       reply.first_seq, reply.last_seq));
    }
    if (append->expected_seq && *append->expected_seq != reply.first_seq) {
        world.violated(Promise::one_order, fmt::format("call {} expected number {} and got {}", call.id,
                                                       *append->expected_seq, reply.first_seq));
    }
    for (std::int64_t seq = reply.first_seq; seq <= reply.last_seq; ++seq) {
        const auto [writer, first] = writer_of_.emplace(std::tuple(call.command.org, append->session, seq), call.id);
        if (first && seq == reply.first_seq) told_.push_back({call.id, seq});
        if (!first && writer->second != call.id) {
            world.violated(Promise::one_order, fmt::format("calls {} and {} were both told that number {} is theirs",
                                                           writer->second, call.id, seq));
        }
    }
}

void SessionsChecker::check(World& world, const Rows& rows) {
    check_numbers(world, rows);
    check_told(world, rows);
}

// Rows against rows: first_seq … next_seq - 1, each once, with the token totals they add up to.
void SessionsChecker::check_numbers(World& world, const Rows& rows) {
    struct Count {
        std::int64_t next = -1;
        std::int64_t input = 0;
        std::int64_t output = 0;
    };
    std::map<std::pair<OrgId, SessionId>, Count> counts;
    const auto& sessions = rows.rows<Session>();
    for (const auto& [key, session] : sessions) counts[key].next = session.first_seq;
    for (const auto& [key, message] : rows.rows<Message>()) {
        const auto count = counts.find({key.first, message.session});
        if (count == counts.end() || message.seq != count->second.next) {
            world.violated(Promise::one_order,
                           fmt::format("session {:x} has message {} where {} was due", message.session.value.low,
                                       message.seq, count == counts.end() ? -1 : count->second.next));
            continue;
        }
        count->second.next += 1;
        count->second.input += message.input_tokens;
        count->second.output += message.output_tokens;
    }
    for (const auto& [key, session] : sessions) {
        const Count& count = counts[key];
        if (count.next != session.next_seq) {
            world.violated(Promise::one_order,
                           fmt::format("session {:x} says its next number is {}, but its messages end before {}",
                                       session.id.value.low, session.next_seq, count.next));
        }
        if (count.input != session.input_tokens || count.output != session.output_tokens) {
            world.violated(
                Promise::one_order,
                fmt::format("session {:x} says {} and {} tokens, its messages say {} and {}", session.id.value.low,
                            session.input_tokens, session.output_tokens, count.input, count.output));
        }
        if (session.parent.value.empty()) {
            if (session.first_seq != 0)
                world.violated(Promise::one_order, "a session without parent does not begin with 0");
            continue;
        }
        const auto parent = sessions.find({key.first, session.parent});
        const bool hangs_well = parent != sessions.end() && session.first_seq > parent->second.first_seq &&
                                session.first_seq <= parent->second.next_seq;
        if (!hangs_well) {
            world.violated(Promise::one_order,
                           fmt::format("session {:x} is forked before {} of a session that has no such message",
                                       session.id.value.low, session.first_seq));
        }
    }
}

// Answers against rows: a turn stands where its writer was told, word for word; and what stands there was written once.
void SessionsChecker::check_told(World& world, const Rows& rows) {
    const auto& messages = rows.rows<Message>();
    for (const Told& told : told_) {
        const Call& call = world.calls()[told.call];
        const auto& append = std::get<Append>(call.command.body);
        auto row = messages.find({call.command.org, {append.session, told.first_seq}});
        for (const NewMessage& message : append.messages) {
            const bool there = row != messages.end() && row->second.id == message.id &&
                               row->second.content == message.content && row->second.session == append.session;
            if (!there) {
                world.violated(Promise::one_order,
                               fmt::format("call {} was told its turn begins at {} of session {:x}; it is not there",
                                           call.id, told.first_seq, append.session.value.low));
                break;
            }
            ++row;
        }
    }
    std::unordered_map<MessageId, std::int64_t> seen;
    for (const auto& [key, message] : messages) {
        if (!seen.emplace(message.id, message.seq).second) {
            world.violated(Promise::nothing_twice, fmt::format("message {:x} is there twice", message.id.value.low));
        }
    }
}

}  // namespace

std::unique_ptr<Checker> make_sessions_checker() { return std::make_unique<SessionsChecker>(); }

}  // namespace interlock::sim
