#include "core/settings.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

SettingReply refused(SettingStatus why, std::string detail) {
    return {.status = why, .version = 0, .detail = std::move(detail)};
}

// Names of models and their patterns have slashes, colons and stars in them.
Complaint check_identity(const std::string& kind, const std::string& name) {
    if (name.empty()) return "name is missing";
    return first_of(check_name("kind", kind), check_label("name", name));
}

// A secret's is what it is encrypted to.
Complaint check_document(const PutSetting& command) {
    if (command.kind == secret_setting) return check_text("document", command.document, limits::setting_bytes_max);
    return check_json_object("document", command.document, limits::setting_bytes_max);
}

SettingReply set(OrgState& state, Stamp stamp, Setting setting) {
    const bool secret = setting.kind == secret_setting;
    setting.changed_at = stamp.at;
    setting.version += 1;
    state.feed.add(SettingChanged{.kind = setting.kind,
                                  .name = setting.name,
                                  .version = setting.version,
                                  .document = secret ? std::string() : setting.document,
                                  .dropped = setting.dropped});
    const std::int64_t version = setting.version;
    const KeyOf<Setting> key = key_of(setting);
    if (state.settings.find(key) != nullptr) {
        state.settings.edit(key) = std::move(setting);
    } else {
        state.settings.insert(std::move(setting));
    }
    return {.status = SettingStatus::done, .version = version, .detail = {}};
}

Complaint check(const ModelCall& call) {
    if (call.id.value.empty()) return "a call needs an id";
    if (!tokens_of(call.usage)) return "token counts must not be negative and must add up to a 64-bit number";
    return first_of(check_attribution(call.who), check_label("operation", call.operation),
                    check_label("upstream", call.upstream), check_label("refusal", call.refusal),
                    check_label("price", call.price), check_line("detail", call.detail));
}

}  // namespace

SettingReply put_setting(OrgState& state, Stamp stamp, const PutSetting& command) {
    const Complaint complaint = first_of(check_identity(command.kind, command.name), check_document(command));
    if (complaint) return refused(SettingStatus::invalid_request, *complaint);
    const Setting* found = state.settings.find({command.kind, command.name});
    if (found != nullptr && !found->dropped && found->document == command.document) {
        return {.status = SettingStatus::unchanged, .version = found->version, .detail = {}};
    }
    if (found == nullptr && state.settings.size() >= limits::settings_per_org_max) {
        return refused(SettingStatus::too_many,
                       fmt::format("an org has at most {} settings", limits::settings_per_org_max));
    }

    // From here on it must be set.
    Setting setting = found != nullptr ? *found : Setting{.kind = command.kind, .name = command.name};
    setting.document = command.document;
    setting.dropped = false;
    return set(state, stamp, std::move(setting));
}

SettingReply drop_setting(OrgState& state, Stamp stamp, const DropSetting& command) {
    const Setting* found = state.settings.find({command.kind, command.name});
    if (found == nullptr || found->dropped) {
        return refused(SettingStatus::setting_not_found,
                       fmt::format("there is no {} '{}'", command.kind, command.name));
    }

    // From here on it must go.
    Setting setting = *found;
    setting.document.clear();
    setting.dropped = true;
    return set(state, stamp, std::move(setting));
}

CallsReply record_calls(OrgState& state, const RecordCalls& command, CommandKey key) {
    // Without one a repeat would write the same rows again.
    if (key.value.empty()) return {.status = CallsStatus::invalid_request, .detail = "a record of calls needs a key"};
    if (command.calls.size() > limits::calls_per_record_max) {
        return {.status = CallsStatus::invalid_request,
                .detail = fmt::format("at most {} calls are recorded at once", limits::calls_per_record_max)};
    }
    // One that cannot be kept does not keep the others out: they are of different callers.
    CallsReply reply;
    for (const ModelCall& call : command.calls) {
        const auto complaint = check(call);
        complaint ? void(reply.detail = *complaint) : void(state.model_calls.add() = call);
    }
    return reply;
}

}  // namespace interlock::core
