// The bytes of a connection: they give the same requests however they are cut, and what the parser accepts has one
// meaning.
//
// The first byte of an input chooses the limits, the second one the cuts. The reader below is naive and shares nothing
// with src/net: it takes a head apart line by line and a chunked body chunk by chunk.
#include <algorithm>
#include <charconv>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ensure.h"
#include "net/request_parser.h"

namespace {

using namespace interlock;
using net::RequestParser;
using State = RequestParser::State;
using Fields = std::vector<std::pair<std::string, std::string>>;

// One request of the connection, or the refusal or the incomplete request that it ends with.
struct Taken {
    State state = State::head;
    std::size_t end = 0;  // The first byte behind the request.
    std::string method = {}, target = {}, path = {}, query = {}, authority = {}, body = {};
    Fields fields = {};
    bool keep_alive = false, http_1_0 = false, expects_continue = false;
    int status = 0;  // Of a refusal.
    std::string code = {}, detail = {};

    auto compared() const {
        return std::tie(state, end, method, target, path, query, authority, body, fields, keep_alive, http_1_0,
                        expects_continue, status, code, detail);
    }
};

Taken taken_from(RequestParser& parser, std::size_t end) {
    Taken taken{.state = parser.state()};
    if (taken.state == State::refused) {
        taken.status = parser.refusal().status;
        taken.code = parser.refusal().code;
        taken.detail = parser.refusal().detail;
    }
    if (taken.state != State::body && taken.state != State::done) return taken;
    const net::Request& request = parser.request();
    taken.method = name_of(request.method);
    taken.target = request.target;
    taken.path = request.path;
    taken.query = request.query;
    taken.authority = request.authority;
    taken.body = request.body;
    for (const net::Header& header : request.headers) taken.fields.emplace_back(header.name, header.value);
    taken.keep_alive = parser.keep_alive();
    taken.http_1_0 = parser.http_1_0();
    taken.expects_continue = parser.expects_continue();
    if (taken.state == State::done) taken.end = end;
    return taken;
}

template <class NextSize>
std::vector<Taken> take_all(const RequestParser::Limits& limits, std::string_view stream, NextSize next_size) {
    RequestParser parser(limits);
    std::vector<Taken> all;
    std::size_t used = 0;
    std::size_t received = 0;
    while (true) {
        const std::size_t now = parser.feed(stream.substr(used, received - used));
        ensure(now <= received - used, "the parser uses bytes that were received");
        used += now;
        if (parser.state() == State::done) {
            all.push_back(taken_from(parser, used));
            parser.begin_next();
        } else if (parser.state() == State::refused || received == stream.size()) {
            all.push_back(taken_from(parser, used));
            return all;
        } else {
            received = std::min(stream.size(), received + next_size());
        }
    }
}

// ---- the naive reader -----------------------------------------------------------------------------------------------

std::string lower(std::string_view text) {
    std::string result;
    for (const char c : text) result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
}

std::string_view without_blanks(std::string_view text) {
    while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
    while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
    return text;
}

std::vector<std::string_view> lines_of(std::string_view head) {
    std::vector<std::string_view> lines;
    while (!head.empty()) {
        const std::size_t end = head.find("\r\n");
        ensure(end != std::string_view::npos, "each line of a head ends with CR and LF");
        lines.push_back(head.substr(0, end));
        head.remove_prefix(end + 2);
    }
    return lines;
}

// The body, and the number of its bytes on the wire.
std::pair<std::string, std::size_t> body_of_chunks(std::string_view wire) {
    std::string body;
    for (std::size_t at = 0;;) {
        const std::size_t line_end = wire.find("\r\n", at);
        ensure(line_end != std::string_view::npos, "the size of a chunk has a line");
        std::size_t size = 0;
        const auto [end, error] = std::from_chars(wire.data() + at, wire.data() + line_end, size, 16);
        ensure(error == std::errc() && (end == wire.data() + line_end || *end == ';'), "a chunk states its size");
        at = line_end + 2;
        ensure(wire.size() >= at + size + 2 && wire.substr(at + size, 2) == "\r\n", "a chunk is as long as it states");
        body.append(wire.substr(at, size));
        at += size + 2;
        if (size == 0) return {std::move(body), at};
    }
}

std::vector<std::string> values_of(const Fields& fields, std::string_view name) {
    std::vector<std::string> values;
    for (const auto& [field, value] : fields) {
        if (field == name) values.push_back(value);
    }
    return values;
}

void check_field(std::string_view line, const std::pair<std::string, std::string>& field) {
    const std::size_t colon = line.find(':');
    ensure(colon != std::string_view::npos && colon > 0, "a header has a name");
    ensure(field.first == lower(line.substr(0, colon)), "the name of a header is what stands before its colon");
    ensure(field.second == without_blanks(line.substr(colon + 1)), "the value of a header is what stands behind it");
    for (const char c : field.first) {
        ensure(c > ' ' && c < 0x7F && std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos,
               "the name of a header is a token");
    }
    for (const char c : field.second) {
        ensure((static_cast<unsigned char>(c) >= ' ' && c != 0x7F) || c == '\t', "a value has no control character");
    }
}

void check_request_line(std::string_view line, const Taken& taken) {
    const std::size_t first = line.find(' ');
    const std::size_t last = line.rfind(' ');
    ensure(first != last && line.find(' ', first + 1) == last, "a request line has two blanks");
    ensure(line.substr(0, first) == taken.method, "the method is the first word");
    ensure(line.substr(last + 1) == (taken.http_1_0 ? "HTTP/1.0" : "HTTP/1.1"), "the version is the last word");
    const std::string_view target = line.substr(first + 1, last - first - 1);
    if (taken.method == "CONNECT") {
        ensure(taken.authority == target && taken.body.empty(), "a CONNECT has a host and no body");
        return;
    }
    ensure(taken.path.starts_with('/'), "a target is a path");
    ensure(taken.target == taken.path + (taken.target.size() > taken.path.size() ? "?" : "") + taken.query,
           "a target is path and query");
    if (taken.authority.empty()) {
        ensure(target == taken.target, "the target is the middle word");
    } else {
        ensure(lower(target).starts_with("http://" + lower(taken.authority)), "another host stands in the target");
    }
}

void check_framing(std::string_view behind_head, const Taken& taken, std::size_t body_size) {
    const auto lengths = values_of(taken.fields, "content-length");
    const auto codings = values_of(taken.fields, "transfer-encoding");
    ensure(lengths.size() + codings.size() <= 1, "a body has one length");
    if (!codings.empty()) {
        ensure(lower(codings[0]) == "chunked" && !taken.http_1_0, "chunked is the one coding, of HTTP/1.1");
        const auto [body, size] = body_of_chunks(behind_head);
        ensure(body == taken.body && size == body_size, "the chunks are the body");
    } else {
        std::size_t length = 0;
        if (!lengths.empty()) {
            const char* end = lengths[0].data() + lengths[0].size();
            const auto [read, error] = std::from_chars(lengths[0].data(), end, length);
            ensure(error == std::errc() && read == end, "the length is one number");
        }
        ensure(body_size == length && taken.body == behind_head.substr(0, length), "the body is as long as stated");
    }
}

void check_accepted(const RequestParser::Limits& limits, std::string_view stream, const Taken& taken) {
    const std::size_t head_size = stream.find("\r\n\r\n") + 4;
    ensure(head_size <= stream.size(), "a head has an end");
    const auto lines = lines_of(stream.substr(0, head_size - 2));
    for (const std::string_view line : lines) {
        ensure(line.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a line is one line");
    }
    ensure(lines.size() == taken.fields.size() + 1, "each line is a header");
    check_request_line(lines[0], taken);
    for (std::size_t i = 0; i < taken.fields.size(); ++i) check_field(lines[i + 1], taken.fields[i]);
    ensure(values_of(taken.fields, "host").size() == (taken.http_1_0 ? values_of(taken.fields, "host").size() : 1) &&
               values_of(taken.fields, "host").size() <= 1,
           "a request is for one host");
    ensure(values_of(taken.fields, "authorization").size() <= 1, "a request has one key");

    ensure(head_size <= limits.header_bytes_max && taken.fields.size() <= limits.headers_max &&
               taken.target.size() <= limits.target_bytes_max && taken.body.size() <= limits.body_bytes_max,
           "the limits hold");
    ensure(limits.proxied || (taken.authority.empty() && taken.method != "CONNECT"), "requests are for this server");
    check_framing(stream.substr(head_size), taken, taken.end - head_size);
}

void check_same(const std::vector<Taken>& left, const std::vector<Taken>& right) {
    ensure(left.size() == right.size(), "however cut, as many requests");
    for (std::size_t i = 0; i < left.size(); ++i) {
        ensure(left[i].compared() == right[i].compared(), "however cut, the same requests");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    RequestParser::Limits limits;
    limits.proxied = (data[0] & 1u) != 0;
    if ((data[0] & 2u) != 0) {
        limits.header_bytes_max = 200;
        limits.target_bytes_max = 40;
        limits.headers_max = 4;
        limits.body_bytes_max = 30;
    }
    std::mt19937 random(data[1]);
    const std::string_view stream(reinterpret_cast<const char*>(data) + 2, size - 2);

    const auto whole = take_all(limits, stream, [&] { return stream.size(); });
    std::size_t begin = 0;
    for (const Taken& taken : whole) {
        if (taken.state == State::done) {
            const std::size_t end = taken.end;
            Taken own = taken;
            own.end -= begin;
            check_accepted(limits, stream.substr(begin), own);
            begin = end;
        } else if (taken.state == State::refused) {
            ensure(taken.status >= 400 && taken.status < 600 && !taken.code.empty() && !taken.detail.empty(),
                   "a refusal has a reason");
        }
    }
    check_same(whole, take_all(limits, stream, [] { return std::size_t{1}; }));
    check_same(whole, take_all(limits, stream, [&] { return 1 + random() % 40; }));
    return 0;
}
