#include "gateway/settings.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/json.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/ensure.h"
#include "base/nearest.h"
#include "core/check.h"
#include "core/hosts.h"
#include "core/limits.h"
#include "core/settings.h"
#include "gateway/forwarding.h"

namespace interlock::gateway {
namespace {

namespace json = boost::json;
namespace limits = core::limits;

using Headers = std::map<std::string, std::string>;

constexpr std::size_t list_max = 1'000;
constexpr std::size_t headers_max = 32;
constexpr std::int64_t timeout_ms_max = 24 * 3'600'000;
constexpr std::int64_t tokens_max = 100'000'000;
constexpr std::int64_t per_minute_max = 1'000'000'000'000;

// ---- one description for reading and for writing --------------------------------------------------------------------

enum class Need { optional, required };

// Takes members out of an object. The first problem is kept; what comes after it is not looked at.
class SettingReader {
 public:
    SettingReader(const json::object& object, std::string pointer) : object_(object), pointer_(std::move(pointer)) {}

    void text(const char* name, std::string& into, std::size_t bytes_max = limits::name_bytes_max) {
        const json::value* found = find(name);
        if (found != nullptr) read_text(*found, at(name), bytes_max, into);
    }
    void flag(const char* name, bool& into) {
        const json::value* found = find(name);
        if (found == nullptr) return;
        found->is_bool() ? void(into = found->get_bool()) : refuse(at(name), "must be true or false");
    }
    template <class Number>
    void number(const char* name, Number& into, std::int64_t min, std::int64_t max) {
        const json::value* found = find(name);
        if (found == nullptr) return;
        if (!found->is_int64()) return refuse(at(name), "must be a whole number");
        const std::int64_t number = found->get_int64();
        if (number < min || number > max)
            return refuse(at(name), fmt::format("is {}; it must be from {} to {}", number, min, max));
        if constexpr (std::is_integral_v<Number>) {
            into = static_cast<Number>(number);
        } else {
            into = number;
        }
    }
    template <class Enum>
    void choice(const char* name, Enum& into, Need need = Need::optional) {
        const json::value* found = find(name);
        if (found == nullptr && need == Need::required) refuse(at(name), "is required");
        if (found == nullptr) return;
        std::string word;
        read_text(*found, at(name), limits::name_bytes_max, word);
        if (bad_ || boost::describe::enum_from_string(word.c_str(), into)) return;
        std::vector<std::string> words;
        boost::mp11::mp_for_each<boost::describe::describe_enumerators<Enum>>(
            [&](auto each) { words.emplace_back(each.name); });
        refuse(at(name), fmt::format("'{}' is not one of: {}", word, fmt::join(words, ", ")));
    }
    void list(const char* name, std::vector<std::string>& into) {
        const json::value* found = find(name);
        if (found == nullptr) return;
        if (!found->is_array()) return refuse(at(name), "must be an array of strings");
        const json::array& array = found->get_array();
        if (array.size() > list_max) return refuse(at(name), fmt::format("has more than {} members", list_max));
        into.assign(array.size(), {});
        for (std::size_t i = 0; i < array.size(); ++i)
            read_text(array[i], fmt::format("{}/{}", at(name), i), limits::name_bytes_max, into[i]);
    }
    void headers(const char* name, Headers& into) {
        const json::value* found = find(name);
        if (found == nullptr) return;
        if (!found->is_object()) return refuse(at(name), "must be an object of strings");
        if (found->get_object().size() > headers_max)
            return refuse(at(name), fmt::format("has more than {} members", headers_max));
        for (const auto& [header, value] : found->get_object()) {
            std::string lower(header);
            for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
            if (into.contains(lower)) return refuse(at(name), fmt::format("has the header '{}' twice", lower));
            read_text(value, fmt::format("{}/{}", at(name), escaped(header)), limits::text_bytes_max, into[lower]);
        }
    }
    void key(const char* name, KeySource& into) {
        const json::value* found = find(name);
        if (found == nullptr) return;
        const json::object* source = found->if_object();
        if (source == nullptr || source->size() != 1 ||
            !boost::describe::enum_from_string(std::string(source->begin()->key()).c_str(), into.from) ||
            into.from == KeyFrom::none) {
            // The value is not repeated: somebody may have put a key there.
            return refuse(at(name), R"(must say where the key is: {"env": "NAME"}, {"file": "/path"} or )"
                                    R"({"secret": "NAME"})");
        }
        read_text(source->begin()->value(), fmt::format("{}/{}", at(name), std::string_view(source->begin()->key())),
                  limits::text_bytes_max, into.name);
    }
    template <class Describe>
    void object(const char* name, Describe describe) {
        const json::value* found = find(name);
        if (found == nullptr) return;
        if (!found->is_object()) return refuse(at(name), "must be an object");
        SettingReader inner(found->get_object(), at(name));
        describe(inner);
        bad_ = inner.end();
    }
    void refuse(std::string pointer, std::string detail) {
        if (!bad_) bad_ = {std::move(pointer), std::move(detail)};
    }

    // After all members were asked for: what was wrong, if anything was.
    std::optional<BadDocument> end() const {
        if (bad_) return bad_;
        for (const auto& member : object_) {
            const std::string name(member.key());
            if (std::ranges::find(known_, name) != known_.end()) continue;
            const auto meant = nearest(name, known_);
            return BadDocument{at(name),
                               meant ? fmt::format("is not known here; did you mean '{}'?", *meant)
                                     : fmt::format("is not known here; known are: {}", fmt::join(known_, ", "))};
        }
        return std::nullopt;
    }

 private:
    // Null for one that is not there, and for all of them once something is wrong.
    const json::value* find(const char* name) {
        known_.emplace_back(name);
        const json::value* found = bad_ ? nullptr : object_.if_contains(name);
        return found == nullptr || found->is_null() ? nullptr : found;
    }
    void read_text(const json::value& from, const std::string& pointer, std::size_t bytes_max, std::string& into) {
        if (!from.is_string()) return refuse(pointer, "must be a string");
        into.assign(from.get_string().data(), from.get_string().size());
        if (into.size() > bytes_max)
            return refuse(pointer, fmt::format("is {} bytes long; at most {} are allowed", into.size(), bytes_max));
        const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
        if (std::ranges::any_of(into, is_control)) refuse(pointer, "must not have control characters");
    }
    static std::string escaped(std::string_view step) {
        std::string out;
        for (const char c : step) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
        return out;
    }
    std::string at(std::string_view name) const { return pointer_ + "/" + escaped(name); }

    const json::object& object_;
    const std::string pointer_;
    std::vector<std::string> known_;
    std::optional<BadDocument> bad_;
};

class Writer {
 public:
    void text(const char* name, std::string& from, std::size_t = 0) { object_[name] = from; }
    void flag(const char* name, bool& from) { object_[name] = from; }
    template <class Number>
    void number(const char* name, Number& from, std::int64_t, std::int64_t) {
        object_[name] = from;
    }
    void number(const char* name, std::optional<std::int64_t>& from, std::int64_t, std::int64_t) {
        object_[name] = from ? json::value(*from) : json::value();
    }
    template <class Enum>
    void choice(const char* name, Enum& from, Need = Need::optional) {
        object_[name] = boost::describe::enum_to_string(from, "");
    }
    void list(const char* name, std::vector<std::string>& from) {
        object_[name] = json::array(from.begin(), from.end());
    }
    void headers(const char* name, Headers& from) {
        json::object headers;
        for (const auto& [header, value] : from) headers[header] = value;
        object_[name] = std::move(headers);
    }
    void key(const char* name, KeySource& from) {
        object_[name] = from.from == KeyFrom::none
                            ? json::value()
                            : json::value(json::object{{boost::describe::enum_to_string(from.from, ""), from.name}});
    }
    template <class Describe>
    void object(const char* name, Describe describe) {
        Writer inner;
        describe(inner);
        object_[name] = std::move(inner.object_);
    }
    std::string end() const { return json::serialize(object_); }

 private:
    json::object object_;
};

template <class Fields>
void describe(Fields& fields, Upstream& upstream) {
    fields.choice("dialect", upstream.dialect, Need::required);
    fields.text("url", upstream.url, limits::text_bytes_max);
    fields.text("provider", upstream.provider);
    fields.key("key", upstream.key);
    fields.list("models", upstream.models);
    fields.text("strip_prefix", upstream.strip_prefix);
    fields.text("limit_name", upstream.limit_name);
    fields.number("priority", upstream.priority, 0, 1'000'000);
    fields.number("weight", upstream.weight, 1, 1'000);
    fields.number("connect_timeout_ms", upstream.connect_timeout_ms, 1, timeout_ms_max);
    fields.number("first_byte_timeout_ms", upstream.first_byte_timeout_ms, 1, timeout_ms_max);
    fields.number("silence_timeout_ms", upstream.silence_timeout_ms, 1, timeout_ms_max);
    fields.number("total_timeout_ms", upstream.total_timeout_ms, 1, timeout_ms_max);
    fields.number("retries", upstream.retries, 0, 10);
    fields.number("backoff_ms", upstream.backoff_ms, 0, 60'000);
    fields.number("cooldown_after", upstream.cooldown_after, 0, 1'000);
    fields.number("cooldown_s", upstream.cooldown_s, 0, 24 * 3'600);
    fields.text("ca_file", upstream.ca_file, limits::text_bytes_max);
    fields.headers("headers", upstream.headers);
    fields.list("pass_headers", upstream.pass_headers);
    fields.flag("insecure", upstream.insecure);
    fields.flag("enabled", upstream.enabled);
}

template <class Fields>
void describe(Fields& fields, RateLimit& limit) {
    fields.object("match", [&](auto& match) {
        match.text("key", limit.key);
        match.text("agent", limit.agent);
        match.text("model", limit.model);
        match.text("provider", limit.provider);
    });
    fields.number("requests_per_minute", limit.requests_per_minute, 1, per_minute_max);
    fields.number("tokens_per_minute", limit.tokens_per_minute, 1, per_minute_max);
}

template <class Fields>
void describe(Fields& fields, GatewaySettings& settings) {
    fields.choice("unknown_model", settings.unknown_model);
    fields.text("assume_price", settings.assume_price);
    fields.number("floor_tokens", settings.floor_tokens, 1, tokens_max);
    fields.number("share_percent", settings.share_percent, 1, 100);
    fields.number("wait_s", settings.wait_s, 0, 3'600);
    fields.number("default_output_tokens", settings.default_output_tokens, 1, tokens_max);
    fields.number("drain_s", settings.drain_s, 0, 3'600);
    fields.number("drain_bytes", settings.drain_bytes, 0, std::int64_t{1} << 30);
    fields.number("hold_lease_s", settings.hold_lease_s, 10, limits::ttl_s_max);
    fields.choice("unbounded_cost", settings.unbounded_cost);
    fields.number("tool_rounds_max", settings.tool_rounds_max, 0, 1'000);
    fields.number("hidden_input_tokens", settings.hidden_input_tokens, 0, tokens_max);
    fields.number("image_tokens_max", settings.image_tokens_max, 0, tokens_max);
    fields.number("file_tokens_max", settings.file_tokens_max, 0, tokens_max);
    fields.number("cache_ttl_s", settings.cache_ttl_s, 0, 30 * 24 * 3'600);
    fields.list("cache_keys", settings.cache_keys);
    fields.object("otlp", [&](auto& otlp) {
        otlp.text("url", settings.otlp.url, limits::text_bytes_max);
        otlp.headers("headers", settings.otlp.headers);
        otlp.number("interval_s", settings.otlp.interval_s, 1, 3'600);
        otlp.flag("insecure", settings.otlp.insecure);
    });
    fields.list("private_orgs", settings.private_orgs);
}

template <class Fields>
void describe(Fields& fields, SandboxSettings& settings) {
    fields.choice("default", settings.standard);
    fields.choice("minimum", settings.minimum);
    fields.list("private_hosts", settings.private_hosts);
}

template <class Setting>
Result<Setting, BadDocument> read(std::string_view document) {
    boost::system::error_code error;
    const json::value parsed = json::parse(json::string_view(document.data(), document.size()), error);
    if (error || !parsed.is_object()) return fail(BadDocument{"", "must be a JSON object"});
    Setting setting;
    SettingReader reader(parsed.get_object(), "");
    describe(reader, setting);
    if (auto bad = reader.end()) return fail(std::move(*bad));
    return setting;
}

template <class Setting>
std::string written(Setting setting) {
    Writer writer;
    describe(writer, setting);
    return writer.end();
}

// ---- what a member's own type does not say --------------------------------------------------------------------------

using Bad = std::optional<BadDocument>;

struct Home {
    Dialect dialect;
    std::string_view url;
    std::string_view version_path;  // Every route of the dialect begins with it.
    std::string_view provider;
};
constexpr std::array homes{
    Home{Dialect::openai, "https://api.openai.com", "/v1", "openai"},
    Home{Dialect::anthropic, "https://api.anthropic.com", "/v1", "anthropic"},
    Home{Dialect::gemini, "https://generativelanguage.googleapis.com", "/v1beta", "google"},
};

const Home& home_of(Dialect dialect) {
    const auto found = std::ranges::find(homes, dialect, &Home::dialect);
    ensure(found != homes.end(), "every dialect has a provider of its own");
    return *found;
}

// Others that speak one of the dialects, as the price catalog calls them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> other_hosts{{
    {"openrouter.ai", "openrouter"},
    {"api.groq.com", "groq"},
    {"api.mistral.ai", "mistral"},
    {"api.deepseek.com", "deepseek"},
    {"api.x.ai", "x-ai"},
    {"api.together.xyz", "together"},
    {"api.fireworks.ai", "fireworks"},
    {"api.cohere.ai", "cohere"},
}};

std::string provider_of(const Upstream& upstream) {
    for (const Home& home : homes) {
        if (home.url.substr(home.url.find("//") + 2) == upstream.origin.host) return std::string(home.provider);
    }
    for (const auto& [host, provider] : other_hosts) {
        if (host == upstream.origin.host) return std::string(provider);
    }
    return std::string(home_of(upstream.dialect).provider);
}

// Most who speak OpenAI's language know the older name of the limit, and pass over a name that they do not know.
std::string limit_name_of(std::string_view provider) {
    constexpr std::array<std::string_view, 6> newer{"openai", "azure", "sim", "groq", "cerebras", "x-ai"};
    return std::ranges::find(newer, provider) != newer.end() ? "max_completion_tokens" : "max_tokens";
}

// The text of a URL that is a base for others, with what it says.
struct Base {
    std::string text;
    net::Url url;
};
Result<Base, BadDocument> read_base(std::string pointer, std::string text) {
    while (text.ends_with('/')) text.pop_back();
    if (text.find_first_of("?#") != std::string::npos)
        return fail(BadDocument{std::move(pointer), "must not have a query: it is what other paths are added to"});
    auto url = net::parse_url(text);
    if (!url) return fail(BadDocument{std::move(pointer), fmt::format("is '{}': {}", text, url.error())});
    return Base{std::move(text), std::move(*url)};
}

std::string in_the_clear(std::string_view url, std::string_view what) {
    return fmt::format("is '{}': {} would go over the network in the clear; use https, or say \"insecure\": true", url,
                       what);
}

Bad complete_url(Upstream& upstream) {
    const Home& home = home_of(upstream.dialect);
    auto base = read_base("/url", upstream.url.empty() ? std::string(home.url) : std::move(upstream.url));
    if (!base) return base.error();
    // SDKs are told their base with the version in it, so people paste it so. Nobody has /v1/v1.
    if (base->url.target.ends_with(home.version_path)) {
        base->text.resize(base->text.size() - home.version_path.size());
        base->url.target.resize(base->url.target.size() - home.version_path.size());
    }
    upstream.url = base->text;
    upstream.path = base->url.target == "/" ? "" : base->url.target;
    upstream.origin = {base->url.secure, base->url.host, base->url.port, upstream.ca_file};
    if (upstream.origin.secure || upstream.insecure || is_loopback(upstream.origin.host)) return std::nullopt;
    return BadDocument{"/url", in_the_clear(upstream.url, "keys and prompts")};
}

// What makes the request what it is, and keys, which have a place of their own.
Bad check_headers(std::string_view pointer, const Headers& headers, const std::vector<std::string>& reserved) {
    for (const auto& [name, value] : headers) {
        const std::string at = fmt::format("{}/{}", pointer, name);
        if (!net::is_header_name(name))
            return BadDocument{std::string(pointer), fmt::format("has no header '{}'", name)};
        if (std::ranges::find(reserved, name) != reserved.end())
            return BadDocument{at, "cannot be set here: the gateway makes it itself"};
    }
    return std::nullopt;
}

const std::vector<std::string>& framing_headers() {
    static const std::vector<std::string> names{"host",
                                                "content-length",
                                                "content-type",
                                                "content-encoding",
                                                "transfer-encoding",
                                                "connection",
                                                "keep-alive",
                                                "upgrade",
                                                "te",
                                                "trailer",
                                                "expect",
                                                "accept-encoding"};
    return names;
}

Bad check_upstream_headers(const Headers& headers) {
    std::vector<std::string> reserved = framing_headers();
    for (const char* name : {"authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "cookie"})
        reserved.emplace_back(name);
    return check_headers("/headers", headers, reserved);
}

// '*' is a character of names, too, so a pattern is checked as a name is.
Bad check_pass_headers(std::vector<std::string>& patterns) {
    if (patterns.size() > headers_max)
        return BadDocument{"/pass_headers", fmt::format("has more than {} members", headers_max)};
    for (std::size_t i = 0; i < patterns.size(); ++i) {
        for (char& c : patterns[i]) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        const std::string at = fmt::format("/pass_headers/{}", i);
        if (!net::is_header_name(patterns[i])) return BadDocument{at, "must be the name of a header, or a pattern"};
        if (ends_here(patterns[i]))
            return BadDocument{at, "cannot be passed on: keys, cookies and headers of the connection end here"};
    }
    return std::nullopt;
}

Bad check_key(const KeySource& key) {
    const std::string at = fmt::format("/key/{}", boost::describe::enum_to_string(key.from, ""));
    switch (key.from) {
        case KeyFrom::none:
            return std::nullopt;
        case KeyFrom::env:
            if (!key.name.empty() && key.name.find('=') == std::string::npos) return std::nullopt;
            return BadDocument{at, "must be the name of an environment variable of the server"};
        case KeyFrom::file:
            if (key.name.starts_with('/')) return std::nullopt;
            return BadDocument{at, "must be an absolute path on the server's machine"};
        case KeyFrom::secret:
            if (!core::check_name("secret", key.name)) return std::nullopt;
            return BadDocument{at, "must be the name of a secret"};
    }
    return std::nullopt;
}

Bad check_patterns(std::string_view pointer, const std::vector<std::string>& patterns) {
    if (patterns.empty()) return BadDocument{std::string(pointer), "must have a pattern; \"*\" takes every model"};
    for (std::size_t i = 0; i < patterns.size(); ++i) {
        if (patterns[i].empty()) return BadDocument{fmt::format("{}/{}", pointer, i), "must not be empty"};
    }
    return std::nullopt;
}

Bad complete(Upstream& upstream) {
    if (auto bad = complete_url(upstream)) return bad;
    if (upstream.provider.empty()) upstream.provider = provider_of(upstream);
    if (core::check_name("provider", upstream.provider)) return BadDocument{"/provider", "must be a name"};
    if (upstream.limit_name.empty()) upstream.limit_name = limit_name_of(upstream.provider);
    if (upstream.limit_name != "max_tokens" && upstream.limit_name != "max_completion_tokens")
        return BadDocument{"/limit_name", "must be max_tokens or max_completion_tokens"};
    if (!upstream.ca_file.empty() && !upstream.ca_file.starts_with('/'))
        return BadDocument{"/ca_file", "must be an absolute path on the server's machine"};
    if (auto bad = check_key(upstream.key)) return bad;
    if (auto bad = check_patterns("/models", upstream.models)) return bad;
    if (auto bad = check_pass_headers(upstream.pass_headers)) return bad;
    return check_upstream_headers(upstream.headers);
}

Bad complete(RateLimit& limit) {
    if (limit.requests_per_minute || limit.tokens_per_minute) return std::nullopt;
    return BadDocument{"", "must have requests_per_minute, tokens_per_minute or both"};
}

Bad complete(GatewaySettings& settings) {
    if (settings.unknown_model == UnknownModel::assume && settings.assume_price.find('/') == std::string::npos)
        return BadDocument{"/assume_price", "must name the price to assume: provider/model"};
    if (settings.otlp.url.empty()) return std::nullopt;
    auto base = read_base("/otlp/url", std::move(settings.otlp.url));
    if (!base) return base.error();
    settings.otlp.url = base->text;
    return check_headers("/otlp/headers", settings.otlp.headers, framing_headers());
}

Bad complete(SandboxSettings& settings) {
    if (settings.private_hosts.size() > core::limits::allowed_hosts_max) {
        return BadDocument{"/private_hosts", fmt::format("has more than {} members", core::limits::allowed_hosts_max)};
    }
    for (std::size_t i = 0; i < settings.private_hosts.size(); ++i) {
        const auto rule = core::host_rule_from(settings.private_hosts[i]);
        if (rule && !rule->is_pattern()) continue;
        return BadDocument{fmt::format("/private_hosts/{}", i), "must be the name of a host, and may end with :PORT"};
    }
    return std::nullopt;
}

// Its sentences begin with what they are about: "a price must …", "variants.batch must …".
BadDocument bad_price(const std::string& sentence) {
    constexpr std::string_view all_of_it = "a price ";
    if (sentence.starts_with(all_of_it)) return {"", sentence.substr(all_of_it.size())};
    const std::size_t end = std::min(sentence.find(' '), sentence.size() - 1);
    std::string pointer = "/" + sentence.substr(0, end);
    std::ranges::replace(pointer, '.', '/');
    return {std::move(pointer), sentence.substr(end + 1)};
}

template <class Setting>
Result<Setting, BadDocument> completed(Result<Setting, BadDocument> setting, std::string_view name) {
    if (!setting) return setting;
    if constexpr (requires { setting->name; }) setting->name = name;
    if (auto bad = complete(*setting)) return fail(std::move(*bad));
    return setting;
}

template <class Setting>
Result<std::string, BadDocument> text_of(const Result<Setting, BadDocument>& setting) {
    if (!setting) return fail(setting.error());
    return document_of(*setting);
}

}  // namespace

Result<Upstream, BadDocument> upstream_from(std::string_view name, std::string_view document) {
    return completed(read<Upstream>(document), name);
}

Result<RateLimit, BadDocument> rate_limit_from(std::string_view name, std::string_view document) {
    return completed(read<RateLimit>(document), name);
}

Result<GatewaySettings, BadDocument> gateway_settings_from(std::string_view document) {
    return completed(read<GatewaySettings>(document), core::single_setting_name);
}

Result<SandboxSettings, BadDocument> sandbox_settings_from(std::string_view document) {
    return completed(read<SandboxSettings>(document), core::single_setting_name);
}

Result<ModelPrice, BadDocument> price_from(std::string_view name, std::string_view document) {
    const std::size_t slash = name.find('/');
    if (slash == 0 || slash == std::string_view::npos || slash + 1 == name.size())
        return fail(BadDocument{"", "must have a provider and a model"});
    auto price = price_from_json(document);
    if (!price) return fail(bad_price(price.error()));
    price->provider = name.substr(0, slash);
    price->model = name.substr(slash + 1);
    price->version.clear();  // Is the setting's.
    return std::move(*price);
}

std::string document_of(const Upstream& upstream) { return written(upstream); }
std::string document_of(const RateLimit& limit) { return written(limit); }
std::string document_of(const GatewaySettings& settings) { return written(settings); }
std::string document_of(const SandboxSettings& settings) { return written(settings); }

Result<std::string, BadDocument> canonical(std::string_view kind, std::string_view name, std::string_view document) {
    if (kind == core::gateway_setting) {
        const auto settings = gateway_settings_from(document);
        if (settings && !is_confidential(settings->otlp)) {
            return fail(BadDocument{"/otlp/url", in_the_clear(settings->otlp.url, "what calls cost, and keys,")});
        }
        return text_of(settings);
    }
    if (kind == core::sandbox_setting) return text_of(sandbox_settings_from(document));
    if (kind == core::price_setting) {
        const auto price = price_from(name, document);
        if (!price) return fail(price.error());
        return to_json(*price);
    }
    if (kind == core::upstream_setting) return text_of(upstream_from(name, document));
    ensure(kind == core::rate_limit_setting, "a kind that is set has its document here");
    return text_of(rate_limit_from(name, document));
}

std::string to_sentence(const BadDocument& bad) {
    return (bad.pointer.empty() ? "the document" : bad.pointer) + " " + bad.detail;
}

net::HttpTimeouts Upstream::patience() const {
    using std::chrono::milliseconds;
    return {.connect = milliseconds(connect_timeout_ms),
            .first_byte = milliseconds(first_byte_timeout_ms),
            .silence = milliseconds(silence_timeout_ms)};
}

bool Upstream::takes(std::string_view model) const {
    return std::ranges::any_of(models, [&](const std::string& pattern) { return matches(pattern, model); });
}

std::string Upstream::model_there(std::string_view model) const {
    return std::string(model.starts_with(strip_prefix) ? model.substr(strip_prefix.size()) : model);
}

bool RateLimit::applies(std::string_view key_id, std::string_view agent_name, std::string_view model_name,
                        std::string_view provider_name) const {
    return (key.empty() || key == key_id) && (agent.empty() || agent == agent_name) &&
           (model.empty() || matches(model, model_name)) && (provider.empty() || provider == provider_name);
}

// A name that only begins like an address of this machine may lead anywhere.
bool is_loopback(std::string_view host) {
    return host == "localhost" || host == "::1" ||
           (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool is_confidential(const Otlp& otlp) {
    const auto url = net::parse_url(otlp.url);
    return !url || url->secure || otlp.insecure || is_loopback(url->host);
}

// After a star the rest is tried from every later place; only the last star needs to be come back to.
bool matches(std::string_view pattern, std::string_view text) {
    std::size_t p = 0;
    std::size_t t = 0;
    std::size_t star = std::string_view::npos;
    std::size_t star_text = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.size() && pattern[p] == text[t]) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

}  // namespace interlock::gateway
