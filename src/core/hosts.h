// Where sealed runs may connect to: rules about names of hosts, and the record of what was connected.
//
//   (1) A rule is NAME, *.NAME or *, with :PORT or without. Without a port it stands for 80 and 443. *.NAME stands for
//       what is below NAME and not for NAME itself.
//   (2) Names are compared in lower case and without a dot at their end.
//   (3) A name is never an address: neither a rule nor a host that is asked for reads as one, in any spelling that a
//       resolver takes (127.1, 0x7f.1, 2130706433, [::1]).
//
// Whether a name leads to an address of this machine or its network is looked at when it is connected to
// (net/public_address.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

struct HostRule {
    std::string name;  // Empty: any. Begins with a dot: any name that ends so.
    std::optional<std::uint16_t> port = {};

    bool matches(std::string_view host, std::uint16_t its_port) const;
    bool is_pattern() const { return name.empty() || name.front() == '.'; }
};

// "Example.ORG." is "example.org". Nothing when the text is no name of a host.
std::optional<std::string> host_name_from(std::string_view text);
std::optional<HostRule> host_rule_from(std::string_view text);
// Rules that cannot be read match nothing.
bool is_allowed(const std::vector<std::string>& rules, std::string_view host, std::uint16_t port);

Complaint check_allowed_hosts(const std::vector<std::string>& rules);

RunReply record_connection(OrgState& state, const RecordConnection& command);

}  // namespace interlock::core
