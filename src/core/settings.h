// What people have set for the parts around the core, and what those parts have seen.
//
//   (1) A setting's version grows by one each time it is set or dropped, and never goes back: what was computed by a
//       version can be named forever. The feed has every document that ever was, but for secrets.
//   (2) A call's id is drawn when it comes and never again, so a record is repeated only with its command's key.
//
// No rule reads a document, and none decides by a recorded call.
#pragma once

#include <string_view>

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

// The kinds there are.
inline constexpr std::string_view upstream_setting = "upstream";
inline constexpr std::string_view rate_limit_setting = "rate_limit";
inline constexpr std::string_view price_setting = "price";    // Named "provider/model".
inline constexpr std::string_view secret_setting = "secret";  // Its documents stay out of the feed.
// Named like the secret: the hosts that its first use has bound it to.
inline constexpr std::string_view secret_hosts_setting = "secret_hosts";
// Of each of these there is one, of this name:
inline constexpr std::string_view single_setting_name = "default";
inline constexpr std::string_view gateway_setting = "gateway";
inline constexpr std::string_view sandbox_setting = "sandbox";

SettingReply put_setting(OrgState& state, Stamp stamp, const PutSetting& command);
SettingReply drop_setting(OrgState& state, Stamp stamp, const DropSetting& command);
CallsReply record_calls(OrgState& state, const RecordCalls& command, CommandKey key);

}  // namespace interlock::core
