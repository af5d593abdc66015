#include "server/data_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace interlock::server {
namespace {

constexpr mode_t owner_only_file = 0600;

std::string system_error() { return std::strerror(errno); }

Result<void, std::string> write_file(const std::string& path, const std::string& text) {
    const std::string beside = path + ".new";
    const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, owner_only_file);
    if (file < 0) return fail(fmt::format("cannot write {}: {}", beside, system_error()));
    const bool written = ::fchmod(file, owner_only_file) == 0 &&
                         ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                         ::fsync(file) == 0;
    const std::string why = system_error();
    ::close(file);
    if (!written || ::rename(beside.c_str(), path.c_str()) != 0) {
        return fail(fmt::format("cannot write {}: {}", path, written ? system_error() : why));
    }
    return {};
}

std::optional<std::string> read_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// What is written there, or else `fresh`, which is.
Result<std::string, std::string> kept_secret(const std::string& path, const std::string& fresh) {
    if (const auto text = read_file(path)) {
        if (text->size() >= fresh.size()) return *text;
        return fail(fmt::format("{} is not a secret; move it away to have one made", path));
    }
    if (auto written = write_file(path, fresh); !written) return fail(written.error());
    return fresh;
}

std::string key_path(const std::string& data_dir) { return data_dir + "/admin.key"; }
std::string note_path(const std::string& data_dir) { return data_dir + "/server.json"; }
std::string catalog_path(const std::string& data_dir) { return data_dir + "/prices.txt"; }

}  // namespace

Result<void, std::string> make_data_dir(const std::string& path) {
    std::error_code error;
    const auto parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail(fmt::format("cannot make the data directory {}: {}", path, system_error()));
    }
    struct stat there{};
    if (::stat(path.c_str(), &there) != 0 || !S_ISDIR(there.st_mode)) {
        return fail(fmt::format("{} is not a directory; name another with --data-dir", path));
    }
    if ((there.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0) {
        return fail(fmt::format("others can read the data directory {} and it cannot be closed to them: {}", path,
                                system_error()));
    }
    return {};
}

Result<Id, std::string> node_id(const std::string& data_dir, Id fresh) {
    const std::string path = data_dir + "/node.id";
    if (const auto text = read_file(path)) {
        const auto id = id_from_text("node", text->substr(0, text->find('\n')));
        if (!id) return fail(fmt::format("{} does not hold the id of a node; move it away to have one made", path));
        return *id;
    }
    if (auto written = write_file(path, to_text("node", fresh) + "\n"); !written) return fail(written.error());
    return fresh;
}

Result<std::string, std::string> run_secret(const std::string& data_dir, const std::string& fresh) {
    return kept_secret(data_dir + "/run.secret", fresh);
}

Result<std::string, std::string> secrets_key(const std::string& data_dir, const std::string& fresh) {
    return kept_secret(secrets_key_path(data_dir), fresh);
}

std::string secrets_key_path(const std::string& data_dir) { return data_dir + "/secrets.key"; }

std::optional<std::string> read_catalog(const std::string& data_dir) { return read_file(catalog_path(data_dir)); }

Result<void, std::string> write_catalog(const std::string& data_dir, const std::string& text) {
    return write_file(catalog_path(data_dir), text);
}

Result<std::optional<std::string>, std::string> read_admin_key(const std::string& data_dir) {
    auto text = read_file(key_path(data_dir));
    if (!text) {
        if (::access(key_path(data_dir).c_str(), F_OK) == 0) {
            return fail(fmt::format("cannot read {}: {}", key_path(data_dir), system_error()));
        }
        return std::optional<std::string>();
    }
    while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
    return text;
}

Result<void, std::string> write_admin_key(const std::string& data_dir, const std::string& key) {
    return write_file(key_path(data_dir), key + "\n");
}

Result<void, std::string> write_server_note(const std::string& data_dir, const ServerNote& note) {
    return write_file(note_path(data_dir), boost::json::serialize(boost::json::object{
                                               {"url", note.url}, {"pid", note.pid}, {"started", note.started}}) +
                                               "\n");
}

std::optional<ServerNote> read_server_note(const std::string& data_dir) {
    const auto text = read_file(note_path(data_dir));
    if (!text) return std::nullopt;
    boost::json::error_code error;
    const boost::json::value parsed = boost::json::parse(*text, error);
    if (error || !parsed.is_object()) return std::nullopt;
    const auto* url = parsed.get_object().if_contains("url");
    const auto* pid = parsed.get_object().if_contains("pid");
    const auto* started = parsed.get_object().if_contains("started");
    if (url == nullptr || pid == nullptr || started == nullptr || !url->is_string() || !pid->is_int64() ||
        !started->is_string()) {
        return std::nullopt;
    }
    return ServerNote{std::string(url->get_string()), static_cast<pid_t>(pid->get_int64()),
                      std::string(started->get_string())};
}

void remove_server_note(const std::string& data_dir) { ::unlink(note_path(data_dir).c_str()); }

std::string process_start(pid_t pid) {
    const auto text = read_file(fmt::format("/proc/{}/stat", pid));
    if (!text) return {};
    // The name in parentheses may have blanks; field 22 is the start, and the third comes right after the name.
    std::istringstream rest(text->substr(std::min(text->size(), text->rfind(')') + 2)));
    std::string field;
    for (int number = 3; number <= 22 && rest >> field; ++number) {
        if (number == 3 && field == "Z") return {};  // Ended; its parent has not looked yet.
    }
    return field;
}

}  // namespace interlock::server
