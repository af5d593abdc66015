// The body of an API request: what its reader takes has one meaning, and what it refuses is named with its place.
//
// The struct below has a member of each type that a request can have. Its members are checked once more against the
// parsed body, without the tables of src/api/wire.h.
#include <algorithm>
#include <array>
#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire.h"
#include "base/ensure.h"
#include "base/strict_json.h"
#include "base/text.h"

namespace interlock::fuzz {

namespace json = boost::json;

enum class Colour { red, green };
BOOST_DESCRIBE_ENUM(Colour, red, green)

struct Inner {
    std::string text;
    std::optional<std::int32_t> count;
    friend bool operator==(const Inner&, const Inner&) = default;
};
BOOST_DESCRIBE_STRUCT(Inner, (), (text, count))

struct Body {
    bool flag = false;
    std::int32_t count = 0;
    std::uint64_t large = 0;
    std::string text;
    Money cost;
    api::AmountText limit;
    api::JsonText metadata;
    core::RunId run;
    Colour colour = Colour::red;
    Inner inner;
    std::optional<Money> most;
    std::vector<Inner> list;
    std::map<std::string, std::string> tags;
    std::map<std::string, std::int64_t> counts;
    static constexpr std::array required{"text", "count"};
    friend bool operator==(const Body&, const Body&) = default;
};
BOOST_DESCRIBE_STRUCT(Body, (),
                      (flag, count, large, text, cost, limit, metadata, run, colour, inner, most, list, tags, counts))

namespace {

constexpr std::array<std::string_view, 14> names{"flag", "count",  "large", "text", "cost", "limit", "metadata",
                                                 "run",  "colour", "inner", "most", "list", "tags",  "counts"};

// What a refusal points at: a value of the body, or a member that its parent does not have.
bool points_into(const json::value& body, std::string_view pointer) {
    boost::system::error_code error;
    if (body.find_pointer(pointer, error) != nullptr) return true;
    const std::size_t last = pointer.rfind('/');
    if (last == std::string_view::npos) return false;
    error.clear();
    const json::value* parent = body.find_pointer(pointer.substr(0, last), error);
    return parent != nullptr && parent->is_object();
}

const json::value* member(const json::value& body, std::string_view name) {
    const json::value* found = body.get_object().if_contains(name);
    return found != nullptr && !found->is_null() ? found : nullptr;
}

// Members of two kinds whose value can be seen without the reader.
void check_members(const json::value& body, const Body& read) {
    for (const auto& each : body.get_object()) {
        ensure(std::ranges::find(names, std::string_view(each.key())) != names.end(), "an unknown member is refused");
    }
    for (const char* name : Body::required) ensure(member(body, name) != nullptr, "a required member is there");
    ensure(std::string_view(body.at("text").get_string()) == read.text, "a text is the text");
    ensure(body.at("count").to_number<double>() == read.count, "a count is the count");
    const json::value* flag = member(body, "flag");
    ensure(read.flag == (flag != nullptr && flag->get_bool()), "a flag that is left out is false");
    const json::value* list = member(body, "list");
    ensure(read.list.size() == (list == nullptr ? 0 : list->get_array().size()), "a list has all its elements");
    const json::value* tags = member(body, "tags");
    ensure(read.tags.size() == (tags == nullptr ? 0 : tags->get_object().size()), "a map has all its members");
    for (const auto& [name, value] : read.tags) {
        ensure(std::string_view(tags->at(name).get_string()) == value, "a member of a map is its value");
    }
}

// In a body, the order of members and blanks have no meaning.
std::string turned_around(const json::object& body) {
    std::string text;
    for (const auto& each : body) {
        text = " " + json::serialize(json::value(each.key())) + " :\n" + json::serialize(each.value()) +
               (text.empty() ? "" : "," + text);
    }
    return "\t{" + text + "} ";
}

void check_body(const json::value& body) {
    const auto read = api::from_json<Body>(body);
    if (!read) {
        const auto& problem = read.error();
        ensure(points_into(body, problem.pointer), "a refusal has its place");
        ensure(!problem.detail.empty() && is_utf8(problem.detail), "a refusal has a reason");
        return;
    }
    check_members(body, *read);
    const auto again = api::from_json<Body>(json::parse(turned_around(body.get_object())));
    ensure(again && *again == *read, "in another order, it is the same");

    const auto parsed = parse_strict_json(api::to_json(*read));
    ensure(parsed.has_value(), "what is written is strict JSON");
    const auto reread = api::from_json<Body>(*parsed);
    ensure(reread && *reread == *read, "what is written reads back");
}

}  // namespace
}  // namespace interlock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace interlock;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto body = parse_strict_json(text);
    boost::json::parse_options options;
    options.max_depth = 1'000;
    boost::system::error_code error;
    boost::json::parse(text, error, {}, options);
    ensure(!body || !error, "what is strict JSON is JSON");
    if (!body) {
        const auto& flaw = body.error();
        ensure(flaw.pointer.empty() || flaw.pointer.front() == '/', "a flaw has its place");
        ensure(!flaw.detail.empty(), "a flaw has a reason");
    } else {
        fuzz::check_body(*body);
    }
    return 0;
}
