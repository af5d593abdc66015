// Checks that many commands share. Each gives the sentence that says what is wrong, or nothing.
//
// They are the one gate for text: however a command came in, a string that is stored is UTF-8, and what is stored
// as JSON is JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/rows.h"

namespace interlock::core {

using Complaint = std::optional<std::string>;

// Names of agents, budgets, schedules, orgs, keys: 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first.
Complaint check_name(std::string_view what, std::string_view name);
// Models, providers, nodes …: one line of up to 128 bytes; may be empty.
Complaint check_label(std::string_view what, std::string_view label);
// Content, scripts, paths: UTF-8.
Complaint check_text(std::string_view what, std::string_view text, std::size_t bytes_max);
// Reasons, notes, titles: UTF-8 on one line, without what a terminal acts on (base/text.h).
Complaint check_line(std::string_view what, std::string_view text);
// Metadata: empty, or one JSON object without a member twice.
Complaint check_json_object(std::string_view what, std::string_view text, std::size_t bytes_max);
Complaint check_tags(const Tags& tags);
Complaint check_range(std::string_view what, std::int64_t value, std::int64_t min, std::int64_t max);
Complaint check_attribution(const Attribution& who);
Complaint check_amounts(std::string_view what, const Amounts& amounts);
// An absolute path without ".", "..", a double slash and a slash at the end.
Complaint check_path(std::string_view what, const std::string& path);
Complaint check_place(const Place& place);
Complaint check_process(const ProcessSpec& process);
Complaint check_retry(const Retry& retry);

// The first complaint of several, in order.
template <class... Complaints>
Complaint first_of(Complaints... complaints) {
    Complaint first;
    (void)((complaints && (first = std::move(complaints))) || ...);
    return first;
}

}  // namespace interlock::core
