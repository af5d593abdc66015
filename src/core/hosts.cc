#include "core/hosts.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/limits.h"

namespace interlock::core {
namespace {

constexpr std::size_t name_bytes_max = 253, label_bytes_max = 63;
constexpr std::int64_t bytes_max = std::int64_t{1} << 60;
constexpr std::uint16_t ports_without_one[] = {80, 443};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_label(std::string_view label) {
    const auto is_good = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_'; };
    return !label.empty() && label.size() <= label_bytes_max && std::ranges::all_of(label, is_good) &&
           label.front() != '-' && label.back() != '-';
}

// Resolvers take a name whose last label is a number, decimal or hexadecimal, for an address.
bool reads_as_number(std::string_view label) {
    if (label.starts_with("0x")) return true;
    return std::ranges::all_of(label, is_digit);
}

std::optional<std::uint16_t> port_from(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
    return port;
}

RunReply not_recorded(RunStatus why, std::string detail) {
    RunReply reply;
    reply.status = why;
    reply.detail = std::move(detail);
    return reply;
}

}  // namespace

bool HostRule::matches(std::string_view host, std::uint16_t its_port) const {
    const bool at_port =
        port ? *port == its_port : std::ranges::find(ports_without_one, its_port) != std::end(ports_without_one);
    if (!at_port || name.empty()) return at_port;
    if (name.front() == '.') return host.size() > name.size() && host.ends_with(name);
    return host == name;
}

std::optional<std::string> host_name_from(std::string_view text) {
    if (text.ends_with('.')) text.remove_suffix(1);
    if (text.empty() || text.size() > name_bytes_max) return std::nullopt;
    std::string name(text);
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    std::string_view rest = name, label;
    while (true) {
        const std::size_t dot = rest.find('.');
        label = rest.substr(0, dot);
        if (!is_label(label)) return std::nullopt;
        if (dot == std::string_view::npos) break;
        rest.remove_prefix(dot + 1);
    }
    if (reads_as_number(label)) return std::nullopt;
    return name;
}

std::optional<HostRule> host_rule_from(std::string_view text) {
    HostRule rule;
    const std::size_t colon = text.rfind(':');
    if (colon != std::string_view::npos) {
        rule.port = port_from(text.substr(colon + 1));
        if (!rule.port) return std::nullopt;
        text = text.substr(0, colon);
    }
    if (text == "*") return rule;
    const bool below = text.starts_with("*.");
    const auto name = host_name_from(below ? text.substr(2) : text);
    if (!name) return std::nullopt;
    rule.name = (below ? "." : "") + *name;
    return rule;
}

bool is_allowed(const std::vector<std::string>& rules, std::string_view host, std::uint16_t port) {
    return std::ranges::any_of(rules, [&](const std::string& text) {
        const auto rule = host_rule_from(text);
        return rule && rule->matches(host, port);
    });
}

Complaint check_allowed_hosts(const std::vector<std::string>& rules) {
    if (rules.size() > limits::allowed_hosts_max) {
        return fmt::format("allowed_hosts has {} entries; at most {} are allowed", rules.size(),
                           limits::allowed_hosts_max);
    }
    for (const std::string& rule : rules) {
        if (auto complaint = check_line("an entry of allowed_hosts", rule)) return complaint;
        if (host_rule_from(rule)) continue;
        return fmt::format(
            "allowed_hosts has '{}'; an entry must be a host name, *.NAME or *, with an optional :PORT, and not an "
            "address",
            rule);
    }
    return std::nullopt;
}

// The run may have ended meanwhile: what it had to do with others is recorded all the same. A host that was refused is
// recorded as it was asked for, and need not be a name.
RunReply record_connection(OrgState& state, const RecordConnection& command) {
    if (auto complaint = first_of(check_label("host", command.host), check_range("port", command.port, 1, 65'535),
                                  check_range("bytes_out", command.bytes_out, 0, bytes_max),
                                  check_range("bytes_in", command.bytes_in, 0, bytes_max))) {
        return not_recorded(RunStatus::invalid_request, std::move(*complaint));
    }
    const Run* run = state.run(command.run);
    if (run == nullptr) return not_recorded(RunStatus::run_not_found, "the run does not exist");

    // From here on it must be recorded.
    state.feed.add(ConnectionEnded{.run = run->id,
                                   .agent = run->who.agent,
                                   .host = command.host,
                                   .port = command.port,
                                   .outcome = command.outcome,
                                   .bytes_out = command.bytes_out,
                                   .bytes_in = command.bytes_in});
    RunReply reply;
    reply.state = run->state;
    return reply;
}

}  // namespace interlock::core
