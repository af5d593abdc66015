#include "shim/launch.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>

namespace interlock::shim {
namespace {

struct Resource {
    std::string_view name;
    int resource;
    const char* group_file = nullptr;
};

constexpr Resource resources[] = {
    {"as", RLIMIT_AS},
    {"core", RLIMIT_CORE},
    {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},
    {"nofile", RLIMIT_NOFILE},
    {"nproc", RLIMIT_NPROC},
    {"stack", RLIMIT_STACK},
    {"memory", RLIMIT_DATA, "memory.max"},
    {"pids", RLIMIT_NPROC, "pids.max"},
    {"cpu_percent", -1, "cpu.max"},
};

template <class Number>
bool read_number(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
}

// Times and sizes. The bound leaves room to add them to one another.
bool read_amount(std::string_view text, std::int64_t& amount) {
    constexpr std::int64_t amount_max = std::int64_t{1} << 60;
    return read_number(text, amount) && amount >= 0 && amount <= amount_max;
}

std::optional<Limit> read_limit(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string_view name = std::string_view(text).substr(0, equals);
    const std::string_view value = std::string_view(text).substr(equals + 1);
    const auto* found = std::ranges::find(resources, name, &Resource::name);
    if (found == std::end(resources)) return std::nullopt;
    Limit limit{.text = text, .resource = found->resource, .value = RLIM_INFINITY, .group_file = found->group_file};
    if (value != "unlimited" && !read_number(value, limit.value)) return std::nullopt;
    return limit;
}

bool read_level(std::string_view name, AppliedSandboxLevel& level) {
    for (const AppliedSandboxLevel each : {AppliedSandboxLevel::off, AppliedSandboxLevel::guarded,
                                           AppliedSandboxLevel::files, AppliedSandboxLevel::sealed}) {
        if (name != name_of(each)) continue;
        level = each;
        return true;
    }
    return false;
}

// False when the value cannot be what the key needs.
bool take(LaunchRequest& launch, std::string_view key, const std::string& value) {
    if (key == "arg") return launch.args.push_back(value), true;
    if (key == "env") return launch.env.push_back(value), value.find('=') != std::string::npos;
    if (key == "write") return launch.writable.push_back(value), !value.empty();
    if (key == "dir") return launch.dir = value, true;
    if (key == "dir_is_held") return launch.dir_is_held = value == "1", true;
    if (key == "home") return launch.home = value, true;
    if (key == "cgroup") return launch.cgroup = value, true;
    if (key == "read") return launch.readable.push_back(value), value.starts_with('/');
    if (key == "hide") return launch.hidden.push_back(value), value.starts_with('/');
    if (key == "level") return read_level(value, launch.level);
    if (key == "port") return read_number(value, launch.port) && launch.port >= 0 && launch.port <= 65'535;
    if (key == "note") return launch.note = value, true;
    // A server that knows no levels.
    if (key == "sandbox") return launch.level = value == "1" ? AppliedSandboxLevel::files : launch.level, true;
    if (key == "nice") return read_number(value, launch.nice);
    if (key == "timeout_ms") return read_amount(value, launch.timeout_ms);
    if (key == "grace_ms") return read_amount(value, launch.grace_ms);
    if (key == "beat_ms") return read_amount(value, launch.beat_ms) && launch.beat_ms > 0;
    if (key == "log_max") return read_amount(value, launch.log_max);
    if (key == "limit") {
        const auto limit = read_limit(value);
        if (limit) launch.limits.push_back(*limit);
        return limit.has_value();
    }
    return true;
}

}  // namespace

const char* name_of(AppliedSandboxLevel level) {
    switch (level) {
        case AppliedSandboxLevel::off:
            return "off";
        case AppliedSandboxLevel::guarded:
            return "guarded";
        case AppliedSandboxLevel::files:
            return "files";
        case AppliedSandboxLevel::sealed:
            return "sealed";
    }
    return "";
}

std::variant<LaunchRequest, std::string> read_launch(const ShimMessage& message) {
    LaunchRequest launch;
    for (std::size_t i = 1; i + 1 < message.size(); i += 2) {
        const std::string &key = message[i], &value = message[i + 1];
        // Behind a NUL the system would not read on, and something else would be started than was asked for.
        const bool whole = value.find('\0') == std::string::npos;
        if (whole && take(launch, key, value)) continue;
        // A value of the environment may be a secret, so it is not repeated.
        return "cannot start it: its " + key + (key == "env" ? "" : " '" + value.substr(0, value.find('\0')) + "'") +
               " cannot be used";
    }
    if (launch.args.empty() || launch.args.front().empty()) return "cannot start it: no command was given";
    return launch;
}

}  // namespace interlock::shim
