#include "server/page.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "server/page_files.h"

namespace interlock::server {
namespace {

constexpr std::string_view hashed_names = "/assets/";  // Where Vite puts what it names by its content.
constexpr std::string_view policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

// The next of the things that commas, or whatever else, separate; without the blanks around it.
std::string_view take_part(std::string_view& list, char separator) {
    std::string_view part = list.substr(0, list.find(separator));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    while (part.starts_with(' ') || part.starts_with('\t')) part.remove_prefix(1);
    while (part.ends_with(' ') || part.ends_with('\t')) part.remove_suffix(1);
    return part;
}

// Accept-Encoding: "gzip, br", "*", "gzip;q=0".
bool takes_gzip(std::string_view accepted) {
    bool others = false;
    while (!accepted.empty()) {
        std::string_view part = take_part(accepted, ',');
        const std::string_view name = take_part(part, ';');
        const std::string_view weight = take_part(part, ';');
        const bool wanted = !weight.starts_with("q=") || weight.find_first_of("123456789") != std::string_view::npos;
        if (name == "gzip") return wanted;
        if (name == "*") others = wanted;
    }
    return others;
}

// If-None-Match: a list of tags, or "*". A proxy that compresses marks our tags as weak.
bool is_known(std::string_view tags, std::string_view tag) {
    while (!tags.empty()) {
        std::string_view each = take_part(tags, ',');
        if (each.starts_with("W/")) each.remove_prefix(2);
        if (each == tag || each == "*") return true;
    }
    return false;
}

net::Response serve(const PageFile& file, const net::Request& request) {
    const bool packed = !file.gzip.empty() && takes_gzip(request.header("accept-encoding"));
    // The same file in another encoding is other bytes, and has another tag.
    const std::string tag = "\"" + std::string(file.hash) + (packed ? "-gzip\"" : "\"");
    net::Response response;
    response.content_type = file.type;
    response.headers = {
        {"etag", tag},
        {"cache-control", file.path.starts_with(hashed_names) ? "public, max-age=31536000, immutable" : "no-cache"},
        {"vary", "accept-encoding"},
        {"content-security-policy", std::string(policy)},
        {"x-content-type-options", "nosniff"},
        {"referrer-policy", "no-referrer"},
        {"cross-origin-opener-policy", "same-origin"},
        {"cross-origin-resource-policy", "same-origin"}};
    if (is_known(request.header("if-none-match"), tag)) {
        response.status = 304;
        return response;
    }
    if (packed) response.headers.push_back({"content-encoding", "gzip"});
    response.body = packed ? file.gzip : file.bytes;
    return response;
}

// A page from before an update asks for files that are gone; what it gets must not be kept under their names.
net::Response not_there() {
    net::Response response;
    response.status = 404;
    response.content_type = "text/plain; charset=utf-8";
    response.headers = {{"cache-control", "no-store"}, {"x-content-type-options", "nosniff"}};
    response.body = "This file no longer exists. Reload the dashboard.\n";
    return response;
}

}  // namespace

std::optional<net::Response> answer_page(const net::Request& request) {
    if (request.method != net::Method::get && request.method != net::Method::head) return std::nullopt;
    for (const PageFile& file : page_files()) {
        if (request.path == file.path) return serve(file, request);
    }
    if (request.path.starts_with(hashed_names)) return not_there();
    return std::nullopt;
}

}  // namespace interlock::server
