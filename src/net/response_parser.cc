#include "net/response_parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <limits>
#include <optional>

#include "net/chunked_body.h"

namespace interlock::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

constexpr std::uint32_t header_bytes_max = 64u << 10;
constexpr std::size_t bytes_unlimited = std::numeric_limits<std::size_t>::max();  // Target::take() counts.

struct Target {
    ClientResponse response;
    ResponseParser::OnChunk on_chunk;
    std::size_t body_bytes_max = 0;
    bool stopped = false;
    bool too_large = false;

    bool take(std::string_view bytes);
};

bool Target::take(std::string_view bytes) {
    if (on_chunk && response.status / 100 == 2) {
        stopped = !on_chunk(bytes);
    } else if (response.body.size() + bytes.size() > body_bytes_max) {
        too_large = true;
    } else {
        response.body.append(bytes);
    }
    return !stopped && !too_large;
}

std::string lower_case(string_view text) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return lower;
}

class Message final : public http::basic_parser<false> {
 public:
    Message(Target& target, Method request_method) : target_(target) {
        header_limit(header_bytes_max);
        body_limit(boost::none);  // Counted below: what is streamed has no limit.
        skip(request_method == Method::head);
    }

 private:
    void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
    void on_response_impl(int status, string_view, int, error_code&) override { target_.response.status = status; }
    void on_field_impl(http::field field, string_view name, string_view value, error_code& error) override {
        std::string lower_name = lower_case(name);
        const bool second = !target_.response.header(lower_name).empty();
        if (field == http::field::content_length && second) error = http::error::multiple_content_length;
        if (field == http::field::transfer_encoding && lower_case(value) != "chunked") {
            error = http::error::bad_transfer_encoding;
        }
        target_.response.headers.push_back({.name = std::move(lower_name), .value = std::string(value)});
    }
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(string_view bytes, error_code& error) override {
        if (!target_.take({bytes.data(), bytes.size()})) error = http::error::body_limit;
        return bytes.size();
    }
    void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }
    void on_finish_impl(error_code&) override {}

    Target& target_;
};

}  // namespace

struct ResponseParser::Parts {
    Target target;
    Method request_method = Method::get;
    std::optional<Message> message;
    std::optional<ChunkedBody> chunks;
    std::string detail;

    std::size_t feed(std::string_view received, bool& wants_more);
    bool is_done() const { return chunks ? chunks->state() == ChunkedBody::State::done : message->is_done(); }
};

ResponseParser::ResponseParser(Method request_method, std::size_t body_bytes_max, OnChunk on_chunk)
    : parts_(std::make_unique<Parts>()) {
    parts_->target.on_chunk = std::move(on_chunk);
    parts_->target.body_bytes_max = body_bytes_max;
    parts_->request_method = request_method;
    parts_->message.emplace(parts_->target, request_method);
}
ResponseParser::~ResponseParser() = default;

std::size_t ResponseParser::feed(std::string_view received) {
    std::size_t used = 0;
    bool wants_more = false;
    while (state_ == State::more && !wants_more && used < received.size()) {
        used += parts_->feed(received.substr(used), wants_more);
        if (parts_->target.stopped) {
            state_ = State::stopped;
        } else if (!parts_->detail.empty()) {
            state_ = State::broken;
        } else if (parts_->is_done() && parts_->target.response.status / 100 == 1) {
            parts_->target.response = {};
            parts_->message.emplace(parts_->target, parts_->request_method);
        } else if (parts_->is_done()) {
            state_ = State::done;
        }
    }
    return used;
}

std::size_t ResponseParser::Parts::feed(std::string_view received, bool& wants_more) {
    std::size_t used = 0;
    if (chunks) {
        used = chunks->feed(received, [this](std::string_view bytes) { return target.take(bytes); });
        wants_more = chunks->wants_more();
        if (chunks->state() == ChunkedBody::State::broken) detail = "the chunks of the body are broken";
    } else {
        error_code error;
        used = message->put(boost::asio::const_buffer(received.data(), received.size()), error);
        wants_more = error == http::error::need_more;
        if (error && !wants_more) detail = error.message();
        if (!error && message->chunked() && !message->is_done()) chunks.emplace(bytes_unlimited);
    }
    if (target.too_large) detail = "the body is too large";
    return used;
}

bool ResponseParser::feed_end() {
    if (!parts_->message->got_some() || parts_->chunks) return false;
    error_code error;
    parts_->message->put_eof(error);
    if (!error) state_ = State::done;
    return !error;
}

const std::string& ResponseParser::detail() const { return parts_->detail; }
ClientResponse& ResponseParser::response() { return parts_->target.response; }
bool ResponseParser::keep_alive() const { return parts_->message->keep_alive(); }

}  // namespace interlock::net
