#include "gateway/body_edit.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ensure.h"

namespace interlock::gateway {

void BodyEdit::set_member(std::size_t brace, const MemberAt& at, std::string_view name, std::string_view value) {
    if (!at.empty()) {
        replace(at.name, fmt::format("\"{}\"", name));
        replace(at.value, std::string(value));
        return;
    }
    const std::size_t next = body_.find_first_not_of(" \t\r\n", brace + 1);
    const std::string_view comma = body_[next] != '}' ? "," : "";
    replace({.begin = brace + 1, .end = brace + 1}, fmt::format("\"{}\":{}{}", name, value, comma));
}

void BodyEdit::remove_member(const MemberAt& at) {
    if (at.empty()) return;
    Span all{.begin = at.name.begin, .end = at.value.end};
    const std::size_t behind = body_.find_first_not_of(" \t\r\n", all.end);
    if (body_[behind] == ',') {
        all.end = behind + 1;
    } else {
        all.begin = body_.rfind(',', all.begin);
    }
    replace(all, {});
}

// In the order of their places. Two members that are put first into one object want a comma between them: the one that
// comes earlier in the text has another member behind it, also where the object was empty.
std::string BodyEdit::result() && {
    if (splices_.empty()) return std::string(body_);
    std::ranges::sort(splices_, {}, [](const Splice& splice) { return std::pair(splice.at.begin, splice.at.end); });
    std::string text;
    text.reserve(body_.size() + 128);
    std::size_t at = 0;
    for (std::size_t i = 0; i < splices_.size(); ++i) {
        const Splice& splice = splices_[i];
        ensure(splice.at.begin >= at && splice.at.end <= body_.size(), "splices do not overlap");
        text.append(body_.substr(at, splice.at.begin - at)).append(splice.text);
        const bool same_place = splice.at.empty() && i + 1 < splices_.size() && splices_[i + 1].at.empty() &&
                                splices_[i + 1].at.begin == splice.at.begin;
        if (same_place && !text.ends_with(',')) text.push_back(',');
        at = splice.at.end;
    }
    return text.append(body_.substr(at));
}

}  // namespace interlock::gateway
