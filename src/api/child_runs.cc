#include "api/child_runs.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>

#include "core/places.h"

namespace interlock::api {
namespace {

using core::SandboxLevel;

Problem beyond_parent(std::string detail, std::string pointer) {
    return {.status = 403, .code = "beyond_parent", .detail = std::move(detail), .pointer = std::move(pointer)};
}

const char* name_of(SandboxLevel level) { return boost::describe::enum_to_string(level, ""); }

// Where the parent writes, and with `reads` also where it only reads.
bool parent_reaches(const StoredRun& parent, const std::string& path, bool reads) {
    const auto is_at = [&](const std::string& top) { return core::is_at_or_below(path, top); };
    const core::ProcessSpec& process = parent.launch->process;
    const bool claimed = std::ranges::any_of(parent.run.wanted, [&](const core::Place& place) {
        return place.kind == core::ClaimKind::workspace && is_at(place.path);
    });
    return claimed || std::ranges::any_of(process.writable, is_at) ||
           (reads && std::ranges::any_of(process.readable, is_at));
}

}  // namespace

std::optional<SandboxLevel> level_in(std::string_view sandbox) {
    const std::string name(sandbox.substr(0, sandbox.find(':')));
    SandboxLevel level{};
    if (!boost::describe::enum_from_string(name.c_str(), level)) return std::nullopt;
    return level;
}

std::optional<Problem> bound_child(core::ProcessSpec& process, const StoredRun& parent, SandboxLevel parents_level,
                                   StatedOfChild stated) {
    const SandboxLevel asked = process.asked_level();
    if (stated.level && asked < parents_level) {
        return beyond_parent(
            fmt::format("sandbox_level is {}, but the parent run has {}; omit it, or use a stricter level",
                        name_of(asked), name_of(parents_level)),
            "/sandbox_level");
    }
    if (asked < parents_level) {
        process.level = parents_level;
        process.sandbox = parents_level == SandboxLevel::files;
    }
    const core::ProcessSpec& above = parent.launch->process;
    if (stated.nice && process.nice < above.nice) {
        return beyond_parent(fmt::format("nice is {}, but the parent run has {}", process.nice, above.nice), "/nice");
    }
    process.nice = std::max(process.nice, above.nice);
    for (const auto& [name, most] : above.limits) {
        std::int64_t& limit = process.limits.try_emplace(name, most).first->second;
        if (stated.limits && limit > most) {
            return beyond_parent(fmt::format("the limit {} is {}, but the parent run has {}", name, limit, most),
                                 "/limits");
        }
        limit = std::min(limit, most);
    }
    if (parents_level < SandboxLevel::files || process.level < SandboxLevel::files) return std::nullopt;
    if (stated.other_agent) return std::nullopt;
    const auto is_beyond = [&](const std::string& host) {
        return parents_level == SandboxLevel::sealed &&
               std::ranges::find(above.allowed_hosts, host) == above.allowed_hosts.end();
    };
    if (const auto beyond = std::ranges::find_if(process.allowed_hosts, is_beyond);
        stated.hosts && beyond != process.allowed_hosts.end()) {
        return beyond_parent(fmt::format("allowed_hosts has '{}', which the parent run cannot reach", *beyond),
                             "/allowed_hosts");
    }
    std::erase_if(process.allowed_hosts, is_beyond);
    for (const std::string& path : process.writable) {
        if (parent_reaches(parent, path, false)) continue;
        return beyond_parent(fmt::format("writable has '{}', which the parent run cannot write", path), "/writable");
    }
    for (const std::string& path : process.readable) {
        if (parent_reaches(parent, path, true)) continue;
        return beyond_parent(fmt::format("readable has '{}', which the parent run cannot read", path), "/readable");
    }
    return std::nullopt;
}

}  // namespace interlock::api
