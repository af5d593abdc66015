#include "nodes/wire.h"

#include <cstring>
#include <utility>

#include "base/codec.h"

namespace interlock::nodes {
namespace {

// What goes over the wire of a submission and of an answer. Bodies are bytes of their own, because a struct that is
// followed by another cannot grow.
struct CommandFrame {
    core::OrgId org;
    core::CommandKey key;
    std::int64_t patience_us = 0;
    std::uint32_t hops = 0;
    std::string body;
    core::CommandKey former;
};
BOOST_DESCRIBE_STRUCT(CommandFrame, (), (org, key, patience_us, hops, body, former))

struct AnswerFrame {
    bool good = false;
    engine::SubmitError error = engine::SubmitError::unavailable;
    bool repeated = false;
    std::string reply;
};
BOOST_DESCRIBE_STRUCT(AnswerFrame, (), (good, error, repeated, reply))

struct FrameHeader {
    std::uint64_t format = 0;
    bool written_here = false;
    std::vector<Head> heads;
    std::uint64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(FrameHeader, (), (format, written_here, heads, count))

constexpr std::uint64_t count_max = 1u << 20;
constexpr std::size_t length_bytes = 8;

// The length stands first: what is cut off must not be taken for something shorter, as a decoder would.
std::string begin_message() { return std::string(length_bytes, '\0'); }
std::string end_message(std::string bytes) {
    const std::uint64_t length = bytes.size();
    std::memcpy(bytes.data(), &length, length_bytes);
    return bytes;
}
std::string_view content_of(std::string_view message) {
    if (message.size() <= length_bytes) return {};
    std::uint64_t length = 0;
    std::memcpy(&length, message.data(), length_bytes);
    return length == message.size() ? message.substr(length_bytes) : std::string_view();
}

// Empty unless it is a whole header of our format with as many frames behind it as it says.
template <class Frame, class OnFrame>
std::optional<FrameHeader> read_frames(std::string_view message, OnFrame on_frame) {
    const std::string_view bytes = content_of(message);
    Decoder decoder(bytes);
    FrameHeader header;
    if (bytes.empty() || !decoder.get(header) || header.format != format || header.count > count_max) {
        return std::nullopt;
    }
    for (std::uint64_t i = 0; i < header.count; ++i) {
        Frame frame;
        if (decoder.at_end() || !decoder.get(frame) || !on_frame(std::move(frame))) return std::nullopt;
    }
    return decoder.at_end() ? std::optional(header) : std::nullopt;
}

}  // namespace

std::string encode_commands(const std::vector<engine::Submission>& submissions, Instant now) {
    std::string bytes = begin_message();
    Encoder encoder(bytes);
    encoder.put(FrameHeader{.format = format, .written_here = false, .heads = {}, .count = submissions.size()});
    for (const engine::Submission& submission : submissions) {
        const Duration timeout = submission.deadline == far_future ? Duration::max() : submission.deadline - now;
        encoder.put(CommandFrame{.org = submission.command.org,
                                 .key = submission.command.key,
                                 .patience_us = timeout.count(),
                                 .hops = submission.hops + 1,
                                 .body = encode(submission.command.body),
                                 .former = submission.command.former});
    }
    return end_message(std::move(bytes));
}

std::optional<std::vector<Forwarded>> decode_commands(std::string_view bytes) {
    std::vector<Forwarded> commands;
    const auto header = read_frames<CommandFrame>(bytes, [&](CommandFrame frame) {
        auto body = decode<core::CommandBody>(frame.body);
        if (!body) return false;
        Forwarded& each = commands.emplace_back();
        each.command.org = frame.org;
        each.command.key = frame.key;
        each.command.former = frame.former;
        each.command.body = std::move(*body);
        each.timeout = Duration(frame.patience_us);
        each.hops = frame.hops;
        return true;
    });
    if (!header) return std::nullopt;
    return commands;
}

std::string encode_answers(const Answers& answers) {
    std::string bytes = begin_message();
    Encoder encoder(bytes);
    encoder.put(FrameHeader{.format = format,
                            .written_here = answers.written_here,
                            .heads = answers.heads,
                            .count = answers.answers.size()});
    for (const engine::SubmitResult& answer : answers.answers) {
        AnswerFrame frame{.good = answer.has_value(), .error = {}, .repeated = false, .reply = {}};
        if (answer) {
            frame.repeated = answer->repeated;
            frame.reply = encode(answer->reply);
        } else {
            frame.error = answer.error();
        }
        encoder.put(frame);
    }
    return end_message(std::move(bytes));
}

std::optional<Answers> decode_answers(std::string_view bytes) {
    Answers answers;
    auto header = read_frames<AnswerFrame>(bytes, [&](AnswerFrame frame) {
        if (!frame.good) {
            answers.answers.push_back(fail(frame.error));
            return true;
        }
        auto reply = decode<core::Reply>(frame.reply);
        if (!reply) return false;
        answers.answers.push_back(engine::CommandResult{std::move(*reply), frame.repeated});
        return true;
    });
    if (!header) return std::nullopt;
    answers.written_here = header->written_here;
    answers.heads = std::move(header->heads);
    return answers;
}

}  // namespace interlock::nodes
