#include "net/request_parser.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <optional>

#include "net/chunked_body.h"

namespace interlock::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

// What is set aside on a client's word before its body comes.
constexpr std::size_t body_bytes_trusted_max = 64u << 10;

Refusal invalid(std::string detail) { return {400, "invalid_request", std::move(detail)}; }
Refusal body_too_large() { return {413, "payload_too_large", "the body is too large"}; }

std::string_view view_of(string_view text) { return {text.data(), text.size()}; }

// Finds the end of a head and what may not be in one, looking at each byte once however often it is called.
class HeadScan {
 public:
    explicit HeadScan(const RequestParser::Limits& limits) : limits_(&limits) {}

    // The length of the head with its empty line; 0 as long as it is not complete.
    std::size_t find_end(std::string_view received, std::optional<Refusal>& refusal);

 private:
    std::optional<Refusal> check_line(std::string_view line);

    const RequestParser::Limits* limits_;
    std::size_t scanned_ = 0;
    std::size_t line_begin_ = 0;
    std::size_t lines_ = 0;
};

std::size_t HeadScan::find_end(std::string_view received, std::optional<Refusal>& refusal) {
    const std::string_view head = received.substr(0, limits_->header_bytes_max);
    // Something else than HTTP, such as the start of TLS, is not waited for.
    if (!head.empty() && (head.front() < 'A' || head.front() > 'Z')) refusal = invalid("no method");
    while (!refusal) {
        const std::size_t feed = head.find('\n', scanned_);
        scanned_ = feed == std::string_view::npos ? head.size() : feed + 1;
        if (lines_ == 0 && scanned_ - line_begin_ > limits_->target_bytes_max + 20) {
            refusal = {414, "uri_too_long", "the request line is too long"};
        } else if (feed == std::string_view::npos) {
            if (head.size() < received.size() || head.size() == limits_->header_bytes_max) {
                refusal = {431, "headers_too_large", "the headers are too large"};
            }
            return 0;
        } else {
            const std::string_view line = head.substr(line_begin_, feed - line_begin_);
            if (line == "\r" && lines_ > 0) return feed + 1;
            refusal = check_line(line);
            line_begin_ = scanned_;
            ++lines_;
        }
    }
    return 0;
}

std::optional<Refusal> HeadScan::check_line(std::string_view line) {
    if (!line.ends_with('\r')) return invalid("a line ends without CR");
    if (line.front() == ' ' || line.front() == '\t') return invalid("a header line is folded");
    if (lines_ > limits_->headers_max) return Refusal{431, "headers_too_large", "there are too many headers"};
    return std::nullopt;
}

constexpr std::string_view sub_delimiters = "!$&'()*+,;=";

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hexadecimal(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }

bool is_path_character(char c) {
    return is_alphanumeric(c) || std::string_view("-._~:@/%").find(c) != std::string_view::npos ||
           sub_delimiters.find(c) != std::string_view::npos;
}

// Browsers leave more of a query unencoded than the grammar allows.
bool is_query_character(char c) { return c > 0x20 && c < 0x7F && c != '#'; }

bool is_percent_encoded(std::string_view text) {
    for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 3)) {
        if (at + 2 >= text.size() || !is_hexadecimal(text[at + 1]) || !is_hexadecimal(text[at + 2])) return false;
        if (text[at + 1] == '0' && text[at + 2] == '0') return false;
    }
    return true;
}

bool is_host(std::string_view host) {
    const std::size_t colon = host.ends_with(']') ? std::string_view::npos : host.rfind(':');
    if (colon != std::string_view::npos) {
        const std::string_view port = host.substr(colon + 1);
        if (port.empty() || port.size() > 5 || !std::ranges::all_of(port, is_decimal)) return false;
        host = host.substr(0, colon);
    }
    if (host.starts_with('[')) {
        if (host.size() < 4 || !host.ends_with(']')) return false;
        return std::ranges::all_of(host.substr(1, host.size() - 2),
                                   [](char c) { return is_hexadecimal(c) || c == ':' || c == '.'; });
    }
    return !host.empty() &&
           std::ranges::all_of(host, [](char c) { return is_alphanumeric(c) || c == '-' || c == '.' || c == '_'; });
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return lower;
}

std::optional<Method> method_of(http::verb verb) {
    switch (verb) {
        case http::verb::get:
            return Method::get;
        case http::verb::head:
            return Method::head;
        case http::verb::post:
            return Method::post;
        case http::verb::put:
            return Method::put;
        case http::verb::patch:
            return Method::patch;
        case http::verb::delete_:
            return Method::delete_;
        case http::verb::options:
            return Method::options;
        case http::verb::connect:
            return Method::connect;
        default:
            return std::nullopt;  // Beast knows WebDAV and more.
    }
}

// Each of these decides something here or at an upstream, so a second one would be a second opinion.
bool is_there_once(std::string_view header) {
    static constexpr std::array<std::string_view, 15> names{
        "anthropic-version", "authorization", "content-encoding", "content-length",
        "content-type",      "cookie",        "expect",           "host",
        "idempotency-key",   "last-event-id", "origin",           "sec-fetch-site",
        "transfer-encoding", "x-api-key",     "x-goog-api-key"};
    return header.starts_with("x-interlock-") || std::ranges::find(names, header) != names.end();
}

// A parameter that a query has twice, however it is encoded. One that does not decode is compared as it was sent.
std::optional<std::string> repeated_name(std::string_view query) {
    std::vector<std::string> names;
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view name = query.substr(0, std::min(query.find('='), end));
        const auto pairs = query_pairs(name);
        if (pairs && !pairs->empty()) {
            names.push_back(pairs->front().first);
        } else if (!name.empty()) {
            names.emplace_back(name);
        }
        query.remove_prefix(std::min(end + 1, query.size()));
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    return twice == names.end() ? std::nullopt : std::optional(*twice);
}

// What Beast calls back, with our checks.
class RequestMessage final : public http::basic_parser<true> {
 public:
    RequestMessage(const RequestParser::Limits& limits, Request& request) : limits_(limits), request_(request) {
        header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
        body_limit(limits.body_bytes_max);
    }

    std::optional<Refusal> refusal;
    bool http_1_0 = false;
    bool expects_continue = false;

    void check_head();

 private:
    void refuse(Refusal why, error_code& error) {
        refusal = std::move(why);
        error = http::error::bad_value;
    }

    void on_request_impl(http::verb verb, string_view, string_view target, int version, error_code& error) override;
    void on_response_impl(int, string_view, int, error_code&) override {}
    void on_field_impl(http::field field, string_view name, string_view value, error_code& error) override;
    bool take_authority();
    void check_value(http::field field, std::string_view value, error_code& error);
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
        if (length) request_.body.reserve(std::min<std::size_t>(*length, body_bytes_trusted_max));
    }
    std::size_t on_body_impl(string_view bytes, error_code&) override {
        request_.body.append(bytes.data(), bytes.size());
        return bytes.size();
    }
    void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }
    void on_finish_impl(error_code&) override {}

    const RequestParser::Limits& limits_;
    Request& request_;
    bool has_transfer_encoding_ = false;
};

void RequestMessage::on_request_impl(http::verb verb, string_view, string_view target, int version, error_code& error) {
    const auto method = method_of(verb);
    if (!method || (*method == Method::connect && !limits_.proxied)) {
        return refuse({501, "not_implemented", "the method is not known here"}, error);
    }
    request_.method = *method;
    http_1_0 = version == 10;

    request_.target = view_of(target);
    if (limits_.proxied && !take_authority()) return refuse(invalid("the target has no host"), error);
    if (*method == Method::connect) return;
    const std::string_view text = request_.target;
    const std::size_t question_mark = text.find('?');
    const std::string_view path = text.substr(0, question_mark);
    const std::string_view query = path.size() == text.size() ? std::string_view() : text.substr(path.size() + 1);
    if (text.size() > limits_.target_bytes_max) return refuse({414, "uri_too_long", "the target is too long"}, error);
    if (!path.starts_with('/') || !std::ranges::all_of(path, is_path_character) ||
        !std::ranges::all_of(query, is_query_character)) {
        return refuse(invalid("the target is not a path"), error);
    }
    if (!is_percent_encoded(path) || !is_percent_encoded(query)) {
        return refuse(invalid("the target's percent-encoding is broken"), error);
    }
    if (const auto name = repeated_name(query)) {
        return refuse(invalid("the query parameter '" + *name + "' is there twice"), error);
    }
    request_.path = path;
    request_.query = query;
}

// What is for another server. Its host and port are only cut out here, and are the handler's to judge.
bool RequestMessage::take_authority() {
    constexpr std::string_view scheme = "http://";
    std::string& target = request_.target;
    if (request_.method == Method::connect) {
        request_.authority = std::move(target);
        target.clear();
    } else if (lower_case(target.substr(0, scheme.size())) == scheme) {
        const std::size_t end = std::min(target.find_first_of("/?", scheme.size()), target.size());
        request_.authority = target.substr(scheme.size(), end - scheme.size());
        target.erase(0, end);
        if (!target.starts_with('/')) target.insert(0, "/");
    } else {
        return true;
    }
    return !request_.authority.empty();
}

void RequestMessage::on_field_impl(http::field field, string_view name, string_view value, error_code& error) {
    check_value(field, view_of(value), error);
    if (error) return;
    std::string lower = lower_case(view_of(name));
    if (is_there_once(lower) && std::ranges::find(request_.headers, lower, &Header::name) != request_.headers.end()) {
        return refuse(invalid("there are two headers " + lower), error);
    }
    request_.headers.push_back({.name = std::move(lower), .value = std::string(view_of(value))});
}

void RequestMessage::check_value(http::field field, std::string_view value, error_code& error) {
    switch (field) {
        case http::field::host:
            if (!is_host(value)) return refuse(invalid("the Host is not a host"), error);
            break;
        case http::field::content_length:
            if (value.empty() || !std::ranges::all_of(value, is_decimal)) {
                return refuse(invalid("the Content-Length is not one number"), error);
            }
            break;
        case http::field::transfer_encoding:
            if (lower_case(value) != "chunked") {
                return refuse({501, "not_implemented", "the transfer coding is not known here"}, error);
            }
            if (http_1_0) return refuse(invalid("HTTP/1.0 has no transfer codings"), error);
            has_transfer_encoding_ = true;
            break;
        case http::field::expect:
            if (lower_case(value) != "100-continue") {
                return refuse({417, "expectation_failed", "the expectation is not known here"}, error);
            }
            expects_continue = !http_1_0;
            break;
        default:
            break;
    }
}

void RequestMessage::check_head() {
    const bool has_host = !request_.header("host").empty();
    if (!has_host && !http_1_0) refusal = invalid("there is no Host");
    // Beast refuses the pair as well. This is the one that must never get through, so it is said twice.
    if (has_transfer_encoding_ && !request_.header("content-length").empty()) {
        refusal = invalid("there are two lengths");
    }
    // What follows is the tunnel's. Read as a body it would be the request of another client.
    const bool has_body = has_transfer_encoding_ || !request_.header("content-length").empty();
    if (request_.method == Method::connect && has_body) refusal = invalid("a CONNECT has no body");
}

// HTTP/2.0 is well-formed and not spoken here; anything else in its place is no version.
bool is_version(std::string_view line) {
    const std::string_view version = line.substr(line.rfind(' ') + 1);
    return std::ranges::count(line, ' ') == 2 && version.size() == 8 && version.starts_with("HTTP/") &&
           is_decimal(version[5]) && version[6] == '.' && is_decimal(version[7]);
}

Refusal refusal_of(error_code error, std::string_view head) {
    if (error == http::error::body_limit) return body_too_large();
    if (error == http::error::bad_version && is_version(head.substr(0, head.find('\r')))) {
        return {505, "version_not_supported", "HTTP/1.1 and HTTP/1.0 are spoken here"};
    }
    return invalid(error.message());
}

}  // namespace

struct RequestParser::Parts {
    explicit Parts(Limits its_limits) : limits(its_limits), scan(limits) { message.emplace(limits, request); }

    const Limits limits;
    Request request;
    HeadScan scan;
    std::optional<RequestMessage> message;
    std::optional<ChunkedBody> chunks;
    std::optional<Refusal> refusal;

    std::size_t feed_head(std::string_view received);
    std::size_t feed_body(std::string_view received);
    std::size_t feed_chunks(std::string_view received);
    bool is_done() const { return chunks ? chunks->state() == ChunkedBody::State::done : message->is_done(); }
};

RequestParser::RequestParser(Limits limits) : parts_(std::make_unique<Parts>(limits)) {}
RequestParser::~RequestParser() = default;

std::size_t RequestParser::feed(std::string_view received) {
    std::size_t used = 0;
    if (state_ == State::head) {
        used = parts_->feed_head(received);
        if (used > 0) state_ = State::body;
    }
    if (state_ == State::body && !parts_->refusal && !parts_->is_done() && used < received.size()) {
        used += parts_->feed_body(received.substr(used));
    }
    if (parts_->refusal) {
        state_ = State::refused;
    } else if (state_ == State::body && parts_->is_done()) {
        state_ = State::done;
    }
    return used;
}

// Gives Beast nothing but whole heads, which also is what it is fastest at.
std::size_t RequestParser::Parts::feed_head(std::string_view received) {
    const std::size_t size = scan.find_end(received, refusal);
    if (size == 0) return 0;
    const std::string_view head = received.substr(0, size);
    error_code error;
    message->put(boost::asio::const_buffer(head.data(), head.size()), error);
    if (!error) message->check_head();
    if (message->refusal)
        refusal = message->refusal;
    else if (error)
        refusal = refusal_of(error, head);
    else if (message->chunked())
        chunks.emplace(limits.body_bytes_max);
    return size;
}

std::size_t RequestParser::Parts::feed_body(std::string_view received) {
    if (chunks) return feed_chunks(received);
    error_code error;
    const std::size_t used = message->put(boost::asio::const_buffer(received.data(), received.size()), error);
    if (error) refusal = refusal_of(error, {});
    return used;
}

std::size_t RequestParser::Parts::feed_chunks(std::string_view received) {
    std::size_t used = 0;
    std::string_view piece;
    do {
        used += chunks->feed(received.substr(used), piece);
        request.body.append(piece);
    } while (!piece.empty());
    if (chunks->state() == ChunkedBody::State::too_large) refusal = body_too_large();
    if (chunks->state() == ChunkedBody::State::broken) refusal = invalid("the chunks of the body are broken");
    return used;
}

Request& RequestParser::request() { return parts_->request; }
bool RequestParser::keep_alive() const { return parts_->message->keep_alive(); }
bool RequestParser::http_1_0() const { return parts_->message->http_1_0; }
bool RequestParser::expects_continue() const { return parts_->message->expects_continue; }
const Refusal& RequestParser::refusal() const { return *parts_->refusal; }

void RequestParser::begin_next() {
    parts_->request = {};
    parts_->scan = HeadScan(parts_->limits);
    parts_->message.emplace(parts_->limits, parts_->request);
    parts_->chunks.reset();
    state_ = State::head;
}

}  // namespace interlock::net
