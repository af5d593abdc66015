#include "server/self_check.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/calendar.h"
#include "cli/doctor.h"

namespace interlock::server {
namespace {

using api::FindingLevel;
using api::SelfFinding;

constexpr std::chrono::days price_list_age_max{90};
constexpr std::chrono::days verify_age_max{7};
constexpr std::chrono::seconds clock_error_max{60};

// What the command looks at when there is no server to ask.
SelfFinding as_here(const cli::DoctorFinding& finding) {
    constexpr std::array levels{FindingLevel::ok, FindingLevel::warn, FindingLevel::fail};
    return {levels[static_cast<std::size_t>(finding.level)], finding.what, finding.detail, finding.advice};
}

SelfFinding look_at_store(const SelfFacts& facts) {
    if (facts.not_ready) return {FindingLevel::fail, "store", *facts.not_ready, "read the server's log"};
    if (facts.engine.failed_commits > 0) {
        return {
            FindingLevel::warn, "store",
            fmt::format("{} commits have failed, the last: {}", facts.engine.failed_commits, facts.engine.last_failure),
            "check the disk; the clients were told, and nothing is half done"};
    }
    return {FindingLevel::ok, "store", "responds", {}};
}

SelfFinding look_at_clock(const SelfFacts& facts) {
    const auto ahead = std::chrono::duration_cast<std::chrono::seconds>(facts.now - facts.wall_clock);
    if (std::chrono::abs(ahead) < clock_error_max)
        return {FindingLevel::ok, "clock", "equals this machine's clock", {}};
    return {
        FindingLevel::warn, "clock",
        fmt::format("the server's time is {} s {} this machine's clock", std::chrono::abs(ahead).count(),
                    ahead.count() > 0 ? "ahead of" : "behind"),
        "check this machine's clock; schedules and windows use the server's time, which approaches the clock by three "
        "minutes per hour"};
}

SelfFinding look_at_memory(const SelfFacts& facts) {
    if (!facts.memory_pressure) return {FindingLevel::ok, "memory", "the kernel does not report memory pressure", {}};
    const std::string detail = fmt::format("processes wait for memory {:.1f} % of the time", *facts.memory_pressure);
    if (facts.memory_pressure_max == 0 || *facts.memory_pressure <= facts.memory_pressure_max) {
        return {FindingLevel::ok, "memory", detail, {}};
    }
    return {FindingLevel::warn, "memory", detail,
            fmt::format("no run starts above {:.0f} %; cancel runs, or lower the cap of the node",
                        facts.memory_pressure_max)};
}

// First what runs get, then each level: what it keeps from a run, or what is missing and how to allow it.
std::vector<SelfFinding> look_at_sandbox(const SelfFacts& facts) {
    const supervisor::SandboxPolicy& levels = facts.sandbox;
    const auto standard = std::max(levels.standard.value_or(core::SandboxLevel::guarded), levels.minimum);
    const bool falls_back = !levels.no_guarded.empty() && !levels.standard && levels.minimum == core::SandboxLevel::off;
    std::vector<SelfFinding> findings{{falls_back ? FindingLevel::warn : FindingLevel::ok, "sandbox",
                                       falls_back
                                           ? "runs have all rights of their user, because level guarded is not possible"
                                           : fmt::format("default {}, minimum {}", supervisor::name_of(standard),
                                                         supervisor::name_of(levels.minimum)),
                                       falls_back ? "see the next line" : ""}};
    constexpr const char* namespaces_and_mounts =
        "runs need user namespaces and mounts: check the sysctls user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns; a container needs "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined, or --privileged; Linux 5.12 or later";
    constexpr const char* network =
        "sealed runs need user, ipc and network namespaces, also as root: check the sysctls user.max_user_namespaces, "
        "user.max_net_namespaces and user.max_ipc_namespaces; a container needs --security-opt seccomp=unconfined or "
        "--privileged";
    const auto add = [&](const char* level, const std::string& why_not, const char* kept, const char* how_to_allow) {
        if (why_not.empty()) return findings.push_back({FindingLevel::ok, level, kept, {}});
        findings.push_back({FindingLevel::warn, level,
                            fmt::format("not possible, so runs at this level are refused: {}", why_not), how_to_allow});
    };
    add("guarded", levels.no_guarded, "runs cannot reach Interlock's data or other processes", namespaces_and_mounts);
    add("files", levels.no_files, "runs reach only workspace, declared paths, system files", namespaces_and_mounts);
    add("sealed", levels.no_sealed, "runs reach only the gateway and allowed hosts", network);
    return findings;
}

SelfFinding look_at_upstreams(const SelfFacts& facts) {
    std::vector<std::string_view> keyless;
    std::vector<std::string_view> failing;
    std::size_t enabled = 0;
    for (const api::UpstreamFacts& upstream : facts.upstreams) {
        if (!upstream.enabled) continue;
        ++enabled;
        if (!upstream.key_found) keyless.push_back(upstream.name);
        const bool fails =
            upstream.state == api::UpstreamState::cooling || upstream.state == api::UpstreamState::failing;
        if (fails) failing.push_back(upstream.name);
    }
    if (enabled == 0) {
        return {FindingLevel::ok, "upstreams", "none; the gateway cannot send model calls", {}};
    }
    if (!keyless.empty()) {
        return {FindingLevel::fail, "upstreams", fmt::format("no key found for {}", fmt::join(keyless, ", ")),
                "'interlock upstreams show NAME' shows where the key should be"};
    }
    if (!failing.empty()) {
        return {FindingLevel::warn, "upstreams", fmt::format("failing: {}", fmt::join(failing, ", ")),
                "interlock upstreams ls"};
    }
    return {FindingLevel::ok, "upstreams", fmt::format("{}, none failing", enabled), {}};
}

SelfFinding look_at_prices(const SelfFacts& facts) {
    const std::string detail = fmt::format("{} of {}", facts.price_list, facts.price_list_date);
    const auto made = from_iso8601(facts.price_list_date + "T00:00:00Z");
    if (!made || facts.now - *made <= price_list_age_max) return {FindingLevel::ok, "price list", detail, {}};
    return {FindingLevel::warn, "price list",
            fmt::format("{}, {} days old", detail,
                        std::chrono::duration_cast<std::chrono::days>(facts.now - *made).count()),
            "interlock prices update --from FILE, or install a newer version"};
}

SelfFinding look_at_promises(const SelfFacts& facts) {
    const api::LastVerify& last = facts.last_verify;
    const bool checked = last.at != far_past;
    boost::system::error_code unreadable;
    const boost::json::value report = boost::json::parse(checked ? last.report : "{}", unreadable);
    const boost::json::value* violations = report.is_object() ? report.get_object().if_contains("violations") : nullptr;
    const std::int64_t found = violations != nullptr && violations->is_int64() ? violations->get_int64() : 0;
    if (found > 0) {
        return {FindingLevel::fail, "promises", fmt::format("{} violations at {}", found, to_iso8601(last.at)),
                "interlock verify"};
    }
    const std::string detail = checked ? fmt::format("all held at {}", to_iso8601(last.at))
                                       : std::string("not verified since this server started");
    const bool long_ago = facts.now - std::max(last.at, facts.started_at) > verify_age_max;
    return {long_ago ? FindingLevel::warn : FindingLevel::ok, "promises", detail, long_ago ? "interlock verify" : ""};
}

SelfFinding look_at_versions(const SelfFacts& facts) {
    std::set<std::string> others;
    for (const store::Node& node : facts.nodes) {
        if (node.alive && node.version != facts.version)
            others.insert(fmt::format("{} has {}", node.name, node.version));
    }
    if (others.empty()) return {FindingLevel::ok, "version", facts.version, {}};
    return {FindingLevel::warn, "version", fmt::format("{}, but {}", facts.version, fmt::join(others, ", ")),
            "install the same version on all nodes"};
}

}  // namespace

std::vector<SelfFinding> run_self_check(const SelfFacts& facts) {
    std::vector<SelfFinding> findings{look_at_store(facts),
                                      as_here(cli::check_disk_space(facts.data_dir)),
                                      as_here(cli::check_open_files()),
                                      look_at_clock(facts),
                                      look_at_memory(facts),
                                      look_at_upstreams(facts),
                                      look_at_prices(facts),
                                      look_at_promises(facts),
                                      look_at_versions(facts)};
    std::ranges::move(look_at_sandbox(facts), std::back_inserter(findings));
    for (const auto& [run, keeper] : facts.kept_places) {
        findings.push_back({FindingLevel::warn, "place", fmt::format("{} keeps its workspace: {}", run, keeper),
                            "end that process, so that the run can end"});
    }
    return findings;
}

}  // namespace interlock::server
