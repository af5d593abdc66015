#include "shim/state.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <type_traits>

#include "shim/fd.h"

namespace interlock::shim {
namespace {

// The last line, so that a file that was cut short is no state.
constexpr std::string_view last_line = "end";

// Everything that is kept, with its name in the file.
template <class SomeState, class Visit>
void for_each_field(SomeState& state, Visit visit) {
    visit("pid", state.pid);
    visit("start", state.start);
    visit("boot", state.boot);
    visit("run", state.run);
    visit("phase", state.phase);
    visit("child_pid", state.child_pid);
    visit("child_start", state.child_start);
    visit("cgroup", state.cgroup);
    visit("suspended", state.suspended);
    visit("how", state.how);
    visit("code", state.code);
    visit("code_is", state.code_is);
    visit("detail", state.detail);
    visit("user_ms", state.user_ms);
    visit("system_ms", state.system_ms);
    visit("max_rss_kb", state.max_rss_kb);
    visit("log_end", state.log_end);
    visit("hole_begin", state.hole_begin);
    visit("hole_end", state.hole_end);
}

// A line end in a text would be one in the file.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\\\";
        } else if (c == '\n') {
            out += "\\n";
        } else {
            out += c;
        }
    }
    return out;
}

std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '\\' && i + 1 < text.size();
        if (escape) ++i;
        out += escape && text[i] == 'n' ? '\n' : text[i];
    }
    return out;
}

// False when it is not of the field's kind.
bool read_value(std::string_view text, std::string& field) {
    field = unescaped(text);
    return true;
}

bool read_value(std::string_view text, ShimPhase& field) {
    const auto phase = phase_of(text);
    field = phase.value_or(field);
    return phase.has_value();
}

bool read_value(std::string_view text, How& field) {
    field = how_of(text);
    return true;
}

bool read_value(std::string_view text, CodeIs& field) {
    field = code_is_of(text);
    return true;
}

template <class Number>
bool read_value(std::string_view text, Number& field) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
    return error == std::errc{} && end == text.data() + text.size();
}

// False when it is not of the field's kind. A name that is not known comes from a newer program and is left alone.
bool read_line(std::string_view line, ShimState& state) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return false;
    bool readable = true;
    for_each_field(state, [&](std::string_view name, auto& field) {
        if (name == line.substr(0, space)) readable = read_value(line.substr(space + 1), field);
    });
    return readable;
}

}  // namespace

bool write_state(const std::string& directory, const ShimState& state) {
    std::string text;
    for_each_field(state, [&](std::string_view name, const auto& field) {
        text += name;
        text += ' ';
        if constexpr (std::is_same_v<decltype(field), const std::string&>) {
            text += escaped(field);
        } else if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(field)>>) {
            text += text_of(field);
        } else {
            text += std::to_string(field);
        }
        text += '\n';
    });
    text += last_line;
    text += '\n';

    const std::string path = directory + "/state";
    const std::string fresh = path + ".new";
    const Fd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return file && write_all(file.get(), text) && rename(fresh.c_str(), path.c_str()) == 0;
}

std::optional<ShimState> read_state(const std::string& directory) {
    const auto text = read_file(directory + "/state");
    if (!text) return std::nullopt;
    ShimState state;
    std::string_view rest = *text;
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) return std::nullopt;
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end + 1);
        if (line == last_line) return state;
        if (!read_line(line, state)) return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace interlock::shim
