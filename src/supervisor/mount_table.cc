#include "supervisor/mount_table.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace interlock::supervisor {
namespace {

constexpr std::size_t ways_max = 256;

// Spaces and line ends in names are written as a backslash and three octal digits.
std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

// Splits at what no backslash stands before, and drops the backslashes.
std::vector<std::string> parts_of(std::string_view text, char at) {
    std::vector<std::string> parts(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 1 < text.size()) {
            parts.back() += text[++i];
        } else if (text[i] == at) {
            parts.emplace_back();
        } else {
            parts.back() += text[i];
        }
    }
    return parts;
}

// The options of an overlay say its layers. Those that are seen through it only by their metadata are not its files.
std::vector<std::string> layers_in(std::string_view options) {
    std::vector<std::string> layers;
    while (!options.empty()) {
        std::size_t end = 0;
        while (end < options.size() && options[end] != ',') end += options[end] == '\\' ? 2 : 1;
        end = std::min(end, options.size());
        const std::string_view option = options.substr(0, end);
        options.remove_prefix(std::min(end + 1, options.size()));
        const std::size_t value = option.find('=') + 1;
        if (!option.starts_with("upperdir=") && !option.starts_with("lowerdir=") && !option.starts_with("lowerdir+=")) {
            continue;
        }
        for (std::string& layer : parts_of(option.substr(value), ':')) {
            if (!layer.starts_with('/')) continue;  // Relative to where the program was that mounted it.
            std::error_code error;
            const auto real = std::filesystem::weakly_canonical(layer, error);
            layers.push_back(error ? std::move(layer) : real.string());
        }
    }
    return layers;
}

// What is left of `path` below `top`: empty text for `top` itself, else it begins with a slash.
std::optional<std::string_view> below(std::string_view path, std::string_view top) {
    if (top == "/") return path == "/" ? path.substr(1) : path;
    if (!path.starts_with(top)) return std::nullopt;
    path.remove_prefix(top.size());
    if (!path.empty() && path.front() != '/') return std::nullopt;
    return path;
}

std::string joined(std::string_view top, std::string_view rest) {
    if (rest.empty()) return std::string(top);
    return top == "/" ? std::string(rest) : fmt::format("{}{}", top, rest);
}

void add(MountTable::Way way, std::vector<MountTable::Way>& ways) {
    if (ways.size() < ways_max && std::ranges::find(ways, way.path, &MountTable::Way::path) == ways.end()) {
        ways.push_back(std::move(way));
    }
}

}  // namespace

std::optional<MountTable> MountTable::read() {
    std::ifstream file("/proc/self/mountinfo");
    std::ostringstream text;
    text << file.rdbuf();
    return from(std::move(text).str());
}

std::optional<MountTable> MountTable::from(std::string text) {
    MountTable table;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string skipped, root, point, type, options;
        Mount mount;
        if (!(words >> skipped >> skipped >> mount.device >> root >> point)) continue;
        mount.root = unescaped(root);
        mount.point = unescaped(point);
        while (words >> skipped && skipped != "-") {
        }
        if (words >> type >> skipped >> options && type == "overlay") mount.layers = layers_in(unescaped(options));
        table.mounts_.push_back(std::move(mount));
    }
    if (table.mounts_.empty()) return std::nullopt;
    table.text_ = std::move(text);
    return table;
}

std::vector<MountTable::Way> MountTable::ways_to(const std::string& path) const {
    std::vector<Way> ways{{.path = path}};
    for (std::size_t i = 0; i < ways.size(); ++i) {
        const Way from = ways[i];
        add_ways_of_mounts(from, ways);
        add_ways_of_overlays(from, ways);
    }
    ways.erase(ways.begin());
    return ways;
}

// A directory lies in one file system, at one path there. Each mount of that file system that includes this path is one
// way to the directory. Which of the mounts above the path it lies in is not asked: a wrong guess leads elsewhere.
void MountTable::add_ways_of_mounts(const Way& from, std::vector<Way>& ways) const {
    for (const Mount& above : mounts_) {
        const auto rest = below(from.path, above.point);
        if (!rest) continue;
        const std::string inside = joined(above.root, *rest);
        for (const Mount& mount : mounts_) {
            const auto way_down = mount.device == above.device ? below(inside, mount.root) : std::nullopt;
            if (!way_down) continue;
            Way way{.path = joined(mount.point, *way_down), .through = from.through};
            // What was not certain before is not certain now.
            const std::size_t uncertain = from.leads_through_overlay() ? from.path.size() - from.certain : 0;
            way.certain = std::max(mount.point.size(), way.path.size() - std::min(uncertain, way.path.size()));
            add(std::move(way), ways);
        }
    }
}

// Down from where the overlay is mounted to its layers, and up from them.
void MountTable::add_ways_of_overlays(const Way& from, std::vector<Way>& ways) const {
    const Mount* own = nullptr;  // The mount that the path lies in.
    for (const Mount& mount : mounts_) {
        if (below(from.path, mount.point) && (own == nullptr || mount.point.size() >= own->point.size())) own = &mount;
    }
    for (const Mount& overlay : mounts_) {
        for (const std::string& layer : overlay.layers) {
            if (&overlay == own && from.through != Through::overlays) {
                const std::string inside = joined(overlay.root, *below(from.path, overlay.point));
                add({.path = inside == "/" ? layer : joined(layer, inside),
                     .through = Through::layers,
                     .certain = layer.size()},
                    ways);
            }
            const auto inside = below(from.path, layer);
            const auto seen = inside ? below(inside->empty() ? "/" : *inside, overlay.root) : std::nullopt;
            if (seen && from.through != Through::layers) {
                add({.path = joined(overlay.point, *seen),
                     .through = Through::overlays,
                     .certain = overlay.point.size()},
                    ways);
            }
        }
    }
}

}  // namespace interlock::supervisor
