#include "shim/sockets.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string_view>

#include "shim/fd.h"

namespace interlock::shim {
namespace {

void sort_and_unite(std::vector<std::string>& texts) {
    std::ranges::sort(texts);
    const auto [first, last] = std::ranges::unique(texts);
    texts.erase(first, last);
}

// As they were bound; a name with a line break is cut there.
std::vector<std::string> bound_names() {
    std::vector<std::string> bound;
    constexpr int words_before_name = 7;
    const std::string text = read_file("/proc/net/unix").value_or("");
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        begin = end + 1;
        std::size_t at = 0;
        for (int word = 0; word < words_before_name && at < line.size(); ++word) {
            at = line.find_first_not_of(' ', std::min(line.find(' ', at), line.size()));
        }
        // Abstract ones are of a network namespace, and have no path.
        if (at < line.size() && line[at] != '@') bound.emplace_back(line.substr(at));
    }
    sort_and_unite(bound);
    return bound;
}

std::string target_of(const std::string& link) {
    char buffer[PATH_MAX];
    const auto length = readlink(link.c_str(), buffer, sizeof buffer);
    return length > 0 && buffer[0] == '/' ? std::string(buffer, static_cast<std::size_t>(length)) : "";
}

template <class OnEntry>
void each_entry(const std::string& directory, OnEntry&& on_entry) {
    DIR* entries = opendir(directory.c_str());
    if (!entries) return;
    while (const dirent* entry = readdir(entries)) on_entry(*entry);
    closedir(entries);
}

// What `link` of any process leads to: "cwd", "fd/5".
std::vector<std::string> directories_of_processes(const std::string& link) {
    std::vector<std::string> directories;
    each_entry("/proc", [&](const dirent& entry) {
        if (entry.d_name[0] < '1' || entry.d_name[0] > '9') return;
        std::string target = target_of(std::string("/proc/") + entry.d_name + "/" + link);
        if (!target.empty()) directories.push_back(std::move(target));
    });
    sort_and_unite(directories);
    return directories;
}

std::string parent_of(const std::string& path) { return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)); }

// Where a name may be that is no path from the root, and one through a descriptor that only its owner has.
std::vector<std::string> paths_of(const std::string& name) {
    constexpr std::string_view through_descriptor = "/proc/self/";
    std::string link = "cwd", rest = name;
    if (name.starts_with(through_descriptor)) {
        const std::size_t slash = name.find('/', through_descriptor.size() + std::string_view("fd/").size());
        if (slash == std::string::npos) return {};
        link = name.substr(through_descriptor.size(), slash - through_descriptor.size());
        rest = name.substr(slash + 1);
    } else if (name.starts_with('/')) {
        return {name};
    }
    std::vector<std::string> paths;
    for (const std::string& directory : directories_of_processes(link)) {
        std::string path = directory + "/" + rest;
        struct stat status{};
        if (lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) paths.push_back(std::move(path));
    }
    return paths;
}

}  // namespace

std::vector<std::string> sockets_of_others() {
    std::vector<std::string> sockets, directories;
    for (const std::string& name : bound_names()) {
        for (std::string& path : paths_of(name)) {
            directories.push_back(parent_of(path));
            sockets.push_back(std::move(path));
        }
    }
    sort_and_unite(directories);
    for (const std::string& directory : directories) {
        each_entry(directory, [&](const dirent& entry) {
            if (entry.d_type == DT_SOCK) sockets.push_back(directory + "/" + entry.d_name);
        });
    }
    sort_and_unite(sockets);
    return sockets;
}

}  // namespace interlock::shim
