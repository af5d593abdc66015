#include "verify/reader.h"

#include <boost/json.hpp>

namespace interlock::verify {
namespace {

constexpr std::int64_t rows_per_report = 50'000;

}  // namespace

void SnapshotReader::read(std::string_view what, std::string_view sql, const store::OnValues& on_row) {
    if (error_) return;
    std::int64_t rows = 0;
    const auto done = snapshot_.query(sql, [&](const std::vector<store::Value>& values) {
        on_row(values);
        if (++rows % rows_per_report == 0 && progress_) progress_(what, rows);
    });
    if (!done) error_ = done.error();
}

std::int64_t ColumnReader::integer() {
    const auto* number = next_ < values_.size() ? std::get_if<std::int64_t>(&values_[next_]) : nullptr;
    ++next_;
    return number == nullptr ? 0 : *number;
}

std::string_view ColumnReader::text() {
    const auto* text = next_ < values_.size() ? std::get_if<std::string>(&values_[next_]) : nullptr;
    ++next_;
    return text == nullptr ? std::string_view() : std::string_view(*text);
}

Id ColumnReader::id() {
    const std::string_view bytes = text();
    if (bytes.size() != 16) return {};
    Id id;
    for (std::size_t i = 0; i < 8; ++i) {
        id.high = id.high << 8 | static_cast<std::uint8_t>(bytes[i]);
        id.low = id.low << 8 | static_cast<std::uint8_t>(bytes[i + 8]);
    }
    return id;
}

// ---- lists and maps -----------------------------------------------------------------------------------------------

namespace {

namespace json = boost::json;

// Reads the members of an object. One that is missing has its default; one of another type makes all of it unreadable.
class Members {
 public:
    explicit Members(const json::value& value) : object_(value.if_object()), readable_(value.is_object()) {}

    std::string text(std::string_view name) {
        const json::value* member = find(name);
        if (member == nullptr) return {};
        if (member->is_string()) return std::string(member->get_string());
        return fail(), std::string();
    }
    std::int64_t integer(std::string_view name) {
        const json::value* member = find(name);
        if (member == nullptr) return 0;
        if (member->is_int64()) return member->get_int64();
        return fail(), 0;
    }
    Id id(std::string_view name);
    const json::value* find(std::string_view name) const {
        return object_ == nullptr ? nullptr : object_->if_contains(name);
    }
    void fail() { readable_ = false; }
    bool readable() const { return readable_; }

 private:
    const json::object* object_;
    bool readable_;
};

// 32 hex digits.
Id Members::id(std::string_view name) {
    const std::string hex = text(name);
    if (hex.empty()) return {};
    if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) return fail(), Id{};
    return {std::stoull(hex.substr(0, 16), nullptr, 16), std::stoull(hex.substr(16), nullptr, 16)};
}

std::optional<json::value> parsed(std::string_view text) {
    json::parse_options options;
    options.allow_invalid_utf8 = true;  // Names and paths are bytes.
    json::error_code error;
    json::value value = json::parse(text, error, {}, options);
    return error ? std::nullopt : std::optional(std::move(value));
}

std::optional<Tags> tags_of(const json::value& value) {
    if (!value.is_object()) return std::nullopt;
    Tags tags;
    for (const auto& [name, tag] : value.get_object()) {
        if (!tag.is_string()) return std::nullopt;
        tags.emplace(std::string_view(name), std::string_view(tag.get_string()));
    }
    return tags;
}

std::optional<std::vector<std::string>> texts_of(const json::value& value) {
    if (!value.is_array()) return std::nullopt;
    std::vector<std::string> texts;
    for (const json::value& element : value.get_array()) {
        if (!element.is_string()) return std::nullopt;
        texts.emplace_back(std::string_view(element.get_string()));
    }
    return texts;
}

// A list of objects, each read by `read(Members&)`.
template <class T, class Read>
std::optional<std::vector<T>> list_of(std::string_view text, Read read) {
    const auto value = parsed(text);
    if (!value || !value->is_array()) return std::nullopt;
    std::vector<T> list;
    for (const json::value& element : value->get_array()) {
        Members members(element);
        list.push_back(read(members));
        if (!members.readable()) return std::nullopt;
    }
    return list;
}

}  // namespace

std::optional<Tags> tags_from(std::string_view text) {
    const auto value = parsed(text);
    return value ? tags_of(*value) : std::nullopt;
}

std::optional<std::vector<std::string>> texts_from(std::string_view text) {
    const auto value = parsed(text);
    return value ? texts_of(*value) : std::nullopt;
}

std::optional<Scope> scope_from(std::string_view text) {
    const auto value = parsed(text);
    if (!value) return std::nullopt;
    Members members(*value);
    Scope scope{members.text("agent"),   members.text("workflow"), members.text("provider"), members.text("model"),
                members.text("api_key"), members.id("run"),        members.id("session"),    {}};
    const json::value* tags = members.find("tags");
    const auto read = tags == nullptr ? Tags() : tags_of(*tags);
    if (!members.readable() || !read) return std::nullopt;
    scope.tags = *read;
    return scope;
}

std::optional<std::vector<HoldPart>> parts_from(std::string_view text) {
    return list_of<HoldPart>(text, [](Members& members) {
        return HoldPart{members.text("budget"), members.integer("window"), members.integer("amount"),
                        members.integer("drawn")};
    });
}

std::optional<std::vector<Place>> places_from(std::string_view text) {
    return list_of<Place>(text, [](Members& members) {
        Place place{members.text("kind"), members.text("host"), members.text("path"), members.text("mode"), {}};
        const json::value* chain = members.find("chain");
        const auto identities = chain == nullptr ? std::vector<std::string>() : texts_of(*chain);
        identities ? void(place.chain = *identities) : members.fail();
        return place;
    });
}

}  // namespace interlock::verify
