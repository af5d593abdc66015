#include "sim/places.h"

#include <algorithm>

#include <fmt/format.h>

namespace interlock::sim {
namespace {

// What the path is called, and where the directory really is. /mnt/a shows /w/a a second time.
struct Directory {
    std::string path;
    std::string real;
};
const std::vector<Directory> directories = {
    {"/w", "/w"},         {"/w/a", "/w/a"},       {"/w/a/x", "/w/a/x"},   {"/w/a/x/deep", "/w/a/x/deep"},
    {"/w/a/y", "/w/a/y"}, {"/w/ab", "/w/ab"},     {"/w/b", "/w/b"},       {"/w/b/z", "/w/b/z"},
    {"/w/c", "/w/c"},     {"/mnt/a", "/w/a"},     {"/mnt/a/x", "/w/a/x"}, {"/mnt/a/y", "/w/a/y"},
    {"/srv/b", "/w/b"},   {"/srv/b/z", "/w/b/z"}, {"/w/d", "/w/d"},       {"/w/e", "/w/e"},
};

// The identities of the directory and of everything above it, as one meets them along this path.
std::vector<std::string> chain_of(const std::string& path) {
    std::vector<std::string> chain;
    for (std::string rest = path; !rest.empty(); rest = rest.substr(0, rest.rfind('/'))) {
        const auto found = std::ranges::find(directories, rest, &Directory::path);
        chain.push_back("dev1:" + (found == directories.end() ? rest : found->real));
    }
    chain.push_back("dev1:/");
    return chain;
}

bool inside(const std::string& path, const std::string& of) {
    return path == of || of == "/" || (path.size() > of.size() && path.starts_with(of) && path[of.size()] == '/');
}

}  // namespace

core::Place some_place(Random& random) {
    const auto mode = random.percent(25) ? core::ClaimMode::read : core::ClaimMode::write;
    if (random.percent(15)) {
        return {core::ClaimKind::resource, {}, random.percent(50) ? "deploy" : "database", {}, mode};
    }
    const Directory& directory = random.pick(directories);
    core::Place place{core::ClaimKind::workspace, random.percent(80) ? "host-1" : "host-2", directory.path, {}, mode};
    if (random.percent(85)) place.chain = chain_of(directory.path);
    return place;
}

core::Place fresh_place(std::uint64_t number) {
    const std::string path = fmt::format("/tree/{}", number);
    return {
        core::ClaimKind::workspace, "host-1", path, {"dev1:" + path, "dev1:/tree", "dev1:/"}, core::ClaimMode::write};
}

bool overlap(const core::Place& a, const core::Place& b) {
    if (a.kind != b.kind || (a.mode == core::ClaimMode::read && b.mode == core::ClaimMode::read)) return false;
    if (a.kind == core::ClaimKind::resource) return a.path == b.path;
    if (a.host != b.host) return false;
    if (inside(a.path, b.path) || inside(b.path, a.path)) return true;
    const auto has = [](const std::vector<std::string>& chain, const std::vector<std::string>& other) {
        return !other.empty() && std::ranges::find(chain, other.front()) != chain.end();
    };
    return has(a.chain, b.chain) || has(b.chain, a.chain);
}

bool is_inside(const core::Place& inner, const core::Place& outer) {
    if (inner.kind != outer.kind || inner.host != outer.host) return false;
    if (inner.mode == core::ClaimMode::write && outer.mode != core::ClaimMode::write) return false;
    if (inner.path == outer.path) return true;
    return inner.kind == core::ClaimKind::workspace && (outer.path == "/" || inner.path.starts_with(outer.path + '/'));
}

std::string to_text(const core::Place& place) {
    return fmt::format("{}{}:{}{}", place.mode == core::ClaimMode::read ? "read " : "", place.host, place.path,
                       place.chain.empty() ? "" : " (" + place.chain.front() + ")");
}

}  // namespace interlock::sim
