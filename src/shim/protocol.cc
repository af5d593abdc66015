#include "shim/protocol.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

namespace interlock::shim {
namespace {

constexpr std::array<std::pair<ShimPhase, std::string_view>, 3> phases{
    {{ShimPhase::waiting, "waiting"}, {ShimPhase::running, "running"}, {ShimPhase::ended, "ended"}}};
constexpr std::array<std::pair<How, std::string_view>, 6> hows{{{How::none, ""},
                                                                {How::exited, "exited"},
                                                                {How::signaled, "signaled"},
                                                                {How::stopped, "stopped"},
                                                                {How::timed_out, "timed_out"},
                                                                {How::not_started, "not_started"}}};
constexpr std::array<std::pair<CodeIs, std::string_view>, 3> codes{
    {{CodeIs::unknown, ""}, {CodeIs::exit_code, "exit_code"}, {CodeIs::signal, "signal"}}};

// Reads the fields behind the verb, one after the other.
class FieldReader {
 public:
    // With fewer than `required` fields nothing is read.
    FieldReader(const ShimMessage& message, std::size_t required)
        : message_(message), good_(message.size() > required) {}

    // An optional field that is missing keeps its default.
    void take(std::string& field) {
        if (const std::string* text = next()) field = *text;
    }
    void take(bool& field) {
        if (const std::string* text = next()) field = *text == "1";
    }
    void take(ShimPhase& field) {
        const std::string* text = next();
        if (text == nullptr) return;
        const auto phase = phase_of(*text);
        good_ = good_ && phase;
        field = phase.value_or(field);
    }
    void take(How& field) {
        if (const std::string* text = next()) field = how_of(*text);
    }
    void take(CodeIs& field) {
        if (const std::string* text = next()) field = code_is_of(*text);
    }
    template <class Number>
    void take(Number& field) {
        const std::string* text = next();
        if (text == nullptr) return;
        const char* last = text->data() + text->size();
        const auto [end, error] = std::from_chars(text->data(), last, field);
        good_ = good_ && error == std::errc{} && end == last;
    }

    template <class Whole>
    std::optional<Whole> give(Whole whole) const {
        return good_ ? std::optional<Whole>(std::move(whole)) : std::nullopt;
    }

 private:
    const std::string* next() { return good_ && at_ < message_.size() ? &message_[at_++] : nullptr; }

    const ShimMessage& message_;
    std::size_t at_ = 1;
    bool good_;
};

template <class Whole, class... Field>
std::optional<Whole> read_fields(const ShimMessage& message, std::size_t required, Field Whole::*... fields) {
    FieldReader reader(message, required);
    Whole whole;
    (reader.take(whole.*fields), ...);
    return reader.give(std::move(whole));
}

std::string number(std::int64_t value) { return std::to_string(value); }

struct FieldWriter {
    ShimMessage operator()(const Hello& m) const {
        return {"hello",
                number(m.version),
                m.run,
                number(m.pid),
                m.start,
                m.boot,
                std::string(text_of(m.phase)),
                number(m.child_pid),
                m.child_start,
                m.foreground ? "1" : "0",
                m.secret};
    }
    ShimMessage operator()(const Beat& m) const {
        return {"beat", number(m.log_end), number(m.hole_begin), number(m.hole_end)};
    }
    ShimMessage operator()(const Started& m) const {
        return {"started", number(m.child_pid), m.child_start, m.note, m.level};
    }
    ShimMessage operator()(const Paused&) const { return {"paused"}; }
    ShimMessage operator()(const Resumed&) const { return {"resumed"}; }
    ShimMessage operator()(const Ended& m) const {
        return {"ended",
                std::string(text_of(m.how)),
                number(m.code),
                m.detail,
                number(m.user_ms),
                number(m.system_ms),
                number(m.max_rss_kb),
                m.secret,
                std::string(text_of(m.code_is))};
    }
    ShimMessage operator()(const Entrance&) const { return {"entrance"}; }
    ShimMessage operator()(const Wait& m) const { return {"wait", m.text}; }
    ShimMessage operator()(const LaunchOrder& m) const { return m.message; }
    ShimMessage operator()(const Refused& m) const { return {"refused", m.why, number(m.code)}; }
    ShimMessage operator()(const Stop& m) const { return {"stop", m.reason}; }
    ShimMessage operator()(const Pause&) const { return {"pause"}; }
    ShimMessage operator()(const Resume&) const { return {"resume"}; }
    ShimMessage operator()(const Fenced& m) const { return {"fenced", m.why}; }
    ShimMessage operator()(const Done& m) const { return {"done", m.receipt}; }
};

}  // namespace

std::string_view text_of(ShimPhase phase) {
    return std::ranges::find(phases, phase, &decltype(phases)::value_type::first)->second;
}

std::string_view text_of(How how) { return std::ranges::find(hows, how, &decltype(hows)::value_type::first)->second; }

std::string_view text_of(CodeIs code_is) {
    return std::ranges::find(codes, code_is, &decltype(codes)::value_type::first)->second;
}

std::optional<ShimPhase> phase_of(std::string_view text) {
    const auto* found = std::ranges::find(phases, text, &decltype(phases)::value_type::second);
    return found == phases.end() ? std::nullopt : std::optional(found->first);
}

How how_of(std::string_view text) {
    const auto* found = std::ranges::find(hows, text, &decltype(hows)::value_type::second);
    return found == hows.end() ? How::not_started : found->first;
}

CodeIs code_is_of(std::string_view text) {
    const auto* found = std::ranges::find(codes, text, &decltype(codes)::value_type::second);
    return found == codes.end() ? CodeIs::unknown : found->first;
}

ShimMessage to_message(const FromShim& message) { return std::visit(FieldWriter{}, message); }
ShimMessage to_message(const FromServer& message) { return std::visit(FieldWriter{}, message); }

std::optional<FromShim> read_from_shim(const ShimMessage& message) {
    if (message.empty()) return std::nullopt;
    const std::string& verb = message.front();
    if (verb == "hello") {
        return read_fields(message, 9, &Hello::version, &Hello::run, &Hello::pid, &Hello::start, &Hello::boot,
                           &Hello::phase, &Hello::child_pid, &Hello::child_start, &Hello::foreground, &Hello::secret);
    }
    if (verb == "beat") return read_fields(message, 0, &Beat::log_end, &Beat::hole_begin, &Beat::hole_end);
    if (verb == "started")
        return read_fields(message, 3, &Started::child_pid, &Started::child_start, &Started::note, &Started::level);
    if (verb == "paused") return Paused{};
    if (verb == "resumed") return Resumed{};
    if (verb == "entrance") return Entrance{};
    if (verb == "ended") {
        return read_fields(message, 3, &Ended::how, &Ended::code, &Ended::detail, &Ended::user_ms, &Ended::system_ms,
                           &Ended::max_rss_kb, &Ended::secret, &Ended::code_is);
    }
    return std::nullopt;
}

std::optional<FromServer> read_from_server(const ShimMessage& message) {
    if (message.empty()) return std::nullopt;
    const std::string& verb = message.front();
    if (verb == "wait") return read_fields(message, 0, &Wait::text);
    if (verb == "launch") return LaunchOrder{message};
    if (verb == "refused") return read_fields(message, 0, &Refused::why, &Refused::code);
    if (verb == "stop") return read_fields(message, 0, &Stop::reason);
    if (verb == "pause") return Pause{};
    if (verb == "resume") return Resume{};
    if (verb == "fenced") return read_fields(message, 0, &Fenced::why);
    if (verb == "done") return read_fields(message, 0, &Done::receipt);
    return std::nullopt;
}

}  // namespace interlock::shim
