#include "shim/cgroup.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cstring>
#include <ctime>

namespace interlock::shim {
namespace {

constexpr int looks_max = 100;
constexpr timespec between_looks{.tv_sec = 0, .tv_nsec = 2'000'000};

// Groups are directories that hold nothing but files of the kernel's, which go with them.
void remove_with_those_beneath(const std::string& path) {
    if (DIR* directory = opendir(path.c_str())) {
        while (const dirent* entry = readdir(directory)) {
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                remove_with_those_beneath(path + "/" + entry->d_name);
        }
        closedir(directory);
    }
    rmdir(path.c_str());
}

}  // namespace

Cgroup::Cgroup(std::string path, std::string& problem) : path_(std::move(path)) {
    const bool made = mkdir(path_.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) {
        problem = "no cgroup: cannot make " + path_ + ": " + std::strerror(errno);
        path_.clear();
    } else if (!open_door() || !read_file(path_ + "/cgroup.events")) {
        problem = "no cgroup: " + path_ + " is not one of version 2, or may not be used: " + std::strerror(errno);
        if (made) rmdir(path_.c_str());
        path_.clear();
    }
}

Fd Cgroup::open_door() const {
    if (path_.empty()) return Fd();
    return Fd(open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
}

bool Cgroup::kill() const { return write("cgroup.kill", "1"); }
bool Cgroup::freeze() const { return write("cgroup.freeze", "1") && events_will_say("frozen 1"); }
bool Cgroup::thaw() const { return write("cgroup.freeze", "0") && events_will_say("frozen 0"); }
bool Cgroup::populated() const { return !events_say("populated 0"); }

void Cgroup::remove() {
    if (!path_.empty()) remove_with_those_beneath(path_);
    path_.clear();
}

bool Cgroup::write(const char* file, const char* text) const {
    if (path_.empty()) return false;
    const Fd fd(open((path_ + "/" + file).c_str(), O_WRONLY | O_CLOEXEC));
    return fd && write_all(fd.get(), text);
}

bool Cgroup::events_say(const char* line) const {
    const auto text = read_file(path_ + "/cgroup.events");
    return text && ("\n" + *text).find(std::string("\n") + line + "\n") != std::string::npos;
}

bool Cgroup::events_will_say(const char* line) const {
    for (int look = 0; look < looks_max; ++look) {
        if (events_say(line)) return true;
        nanosleep(&between_looks, nullptr);
    }
    return false;
}

}  // namespace interlock::shim
