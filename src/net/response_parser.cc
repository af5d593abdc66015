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

constexpr std::size_t bytes_unlimited = std::numeric_limits<std::size_t>::max();  // Whoever takes the pieces counts.

std::string lower_case(string_view text) {
    std::string lower(text);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return lower;
}

// The head. Beast could read bodies too, but only into a callback.
class ResponseMessage final : public http::basic_parser<false> {
 public:
    ResponseMessage(Method request_method, std::size_t head_bytes_max) {
        header_limit(static_cast<std::uint32_t>(head_bytes_max));
        body_limit(boost::none);
        skip(request_method == Method::head);
    }

    int status = 0;
    std::vector<Header> headers;

 private:
    void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
    void on_response_impl(int its_status, string_view, int, error_code&) override { status = its_status; }
    void on_field_impl(http::field field, string_view name, string_view value, error_code& error) override {
        if (field == http::field::content_length && !find_header(headers, "content-length").empty()) {
            error = http::error::multiple_content_length;
        }
        if (field == http::field::transfer_encoding && lower_case(value) != "chunked") {
            error = http::error::bad_transfer_encoding;
        }
        headers.push_back({.name = lower_case(name), .value = std::string(value)});
    }
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
    std::size_t on_body_impl(string_view, error_code&) override { return 0; }
    void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }
    void on_finish_impl(error_code&) override {}
};

}  // namespace

struct ResponseParser::Parts {
    Parts(Method its_request_method, std::size_t its_head_bytes_max)
        : request_method(its_request_method), head_bytes_max(its_head_bytes_max) {
        begin();
    }
    void begin() { message.emplace(request_method, head_bytes_max); }

    const Method request_method;
    const std::size_t head_bytes_max;
    std::optional<ResponseMessage> message;
    std::optional<ChunkedBody> chunks;
    std::uint64_t bytes_left = 0;  // Of a body that is not chunked.
    std::string detail;
};

ResponseParser::ResponseParser(Method request_method, std::size_t head_bytes_max)
    : parts_(std::make_unique<Parts>(request_method, head_bytes_max)) {}
ResponseParser::~ResponseParser() = default;

std::size_t ResponseParser::feed(std::string_view received, std::string_view& piece) {
    piece = {};
    if (received.empty()) return 0;
    if (state_ == State::head) return feed_head(received);
    if (state_ == State::body) return parts_->chunks ? feed_chunks(received, piece) : feed_bytes(received, piece);
    return 0;
}

std::size_t ResponseParser::feed_head(std::string_view received) {
    std::size_t used = 0;
    while (state_ == State::head && used < received.size()) {
        ResponseMessage& message = *parts_->message;
        error_code error;
        used += message.put(boost::asio::const_buffer(received.data() + used, received.size() - used), error);
        if (error == http::error::need_more) break;
        if (error) {
            parts_->detail = error.message();
            state_ = State::broken;
        } else if (message.status < 100 || message.status > 599 || message.status == 101) {
            // No protocol but HTTP was asked for, so 101 is no answer either.
            parts_->detail = "the status " + std::to_string(message.status) + " is none";
            state_ = State::broken;
        } else if (message.is_done() && message.status / 100 == 1) {
            parts_->begin();
        } else if (message.is_done()) {
            state_ = State::done;
        } else {
            state_ = State::body;
            if (message.chunked()) parts_->chunks.emplace(bytes_unlimited);
            parts_->bytes_left = message.content_length_remaining().value_or(bytes_unlimited);
        }
    }
    return used;
}

std::size_t ResponseParser::feed_chunks(std::string_view received, std::string_view& piece) {
    const std::size_t used = parts_->chunks->feed(received, piece);
    if (parts_->chunks->state() == ChunkedBody::State::done) {
        state_ = State::done;
    } else if (!parts_->chunks->wants_more()) {
        parts_->detail = "the chunks of the body are broken";
        state_ = State::broken;
    }
    return used;
}

std::size_t ResponseParser::feed_bytes(std::string_view received, std::string_view& piece) {
    piece = received.substr(0, parts_->bytes_left);
    if (parts_->message->need_eof()) return piece.size();
    parts_->bytes_left -= piece.size();
    if (parts_->bytes_left == 0) state_ = State::done;
    return piece.size();
}

bool ResponseParser::feed_end() {
    if (state_ != State::body || parts_->chunks || !parts_->message->need_eof()) return false;
    state_ = State::done;
    return true;
}

const std::string& ResponseParser::detail() const { return parts_->detail; }
int ResponseParser::status() const { return parts_->message->status; }
std::vector<Header>& ResponseParser::headers() { return parts_->message->headers; }
bool ResponseParser::keep_alive() const { return parts_->message->keep_alive(); }

}  // namespace interlock::net
