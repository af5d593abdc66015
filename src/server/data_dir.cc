#include "server/data_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstdlib>
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
        return fail(fmt::format("{} does not contain a secret; move it away, and the server creates another", path));
    }
    if (auto written = write_file(path, fresh); !written) return fail(written.error());
    return fresh;
}

std::string of_another_user(const std::string& what, uid_t owner) {
    return fmt::format(
        "{} belongs to user {}, but this is user {}; start the server as its owner, or set another "
        "--data-dir",
        what, owner, ::geteuid());
}

// What others could have changed is not trusted, nor is a secret that others could have read.
Result<void, std::string> check_file(const std::string& path, bool secret) {
    struct stat there{};
    if (::lstat(path.c_str(), &there) != 0) {
        if (errno == ENOENT) return {};
        return fail(fmt::format("cannot read {}: {}", path, system_error()));
    }
    if (!S_ISREG(there.st_mode) && (secret || !S_ISLNK(there.st_mode))) {
        return fail(fmt::format("{} is not a regular file; move it away", path));
    }
    if (there.st_uid != ::geteuid()) return fail(of_another_user(path, there.st_uid));
    if (S_ISLNK(there.st_mode)) return {};
    if ((there.st_mode & 022) != 0) {
        return fail(fmt::format("other users can write to {} (mode {:04o}); check its content, then run: chmod 600 {}",
                                path, there.st_mode & 07777, path));
    }
    if (secret && (there.st_mode & 044) != 0) {
        return fail(
            fmt::format("other users can read {} (mode {:04o}); if no user has, run: chmod 600 {}; "
                        "otherwise move it away, and the server creates another",
                        path, there.st_mode & 07777, path));
    }
    return {};
}

Result<void, std::string> check_files(const std::string& data_dir) {
    for (const char* name : {"admin.key", "secrets.key", "run.secret", "seal.key"}) {
        if (auto good = check_file(data_dir + "/" + name, true); !good) return good;
    }
    for (const char* name : {"interlock.db", "interlock.db-wal", "interlock.db-shm", "interlock.lock", "node.id",
                             "history", "store.head", "prices.txt", "server.json"}) {
        if (auto good = check_file(data_dir + "/" + name, false); !good) return good;
    }
    return {};
}

std::string note_path(const std::string& data_dir) { return data_dir + "/server.json"; }
std::string catalog_path(const std::string& data_dir) { return data_dir + "/prices.txt"; }

std::string bytes_of_hex(const std::string& text) {
    std::string bytes;
    for (std::size_t at = 0; at + 2 <= text.size(); at += 2) {
        bytes.push_back(static_cast<char>(std::strtoul(text.substr(at, 2).c_str(), nullptr, 16)));
    }
    return bytes;
}

// A key a line, or "lost ID" of one that no longer exists. The first key is the one that seals.
std::vector<store::SealKey> seal_keys_in(const std::string& text) {
    constexpr std::string_view lost_mark = "lost ";
    std::vector<store::SealKey> keys, lost;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(lost_mark)) {
            lost.push_back(
                {.id = bytes_of_hex(line.substr(lost_mark.size())), .chain = HmacSha256({}), .rows = {}, .lost = true});
        } else if (!line.empty()) {
            keys.push_back(store::SealKey::from_text(line));
        }
    }
    keys.insert(keys.end(), lost.begin(), lost.end());
    return keys;
}

}  // namespace

Result<void, std::string> make_data_dir(const std::string& path) {
    std::error_code error;
    const auto parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail(fmt::format("cannot create the data directory {}: {}", path, system_error()));
    }
    struct stat there{};
    if (::stat(path.c_str(), &there) != 0 || !S_ISDIR(there.st_mode)) {
        return fail(fmt::format("{} is not a directory; set another --data-dir", path));
    }
    if (there.st_uid != ::geteuid()) return fail(of_another_user("the data directory " + path, there.st_uid));
    // What others could write, others may have put there. What they could only read is closed to them below.
    if ((there.st_mode & 022) != 0 && !std::filesystem::is_empty(path, error)) {
        return fail(
            fmt::format("other users can write to the data directory {} (mode {:04o}), so they may have "
                        "changed its files; check the files, then run: chmod 700 {}",
                        path, there.st_mode & 07777, path));
    }
    if (auto ours = check_files(path); !ours) return ours;
    if ((there.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0) {
        return fail(fmt::format("other users can read the data directory {}, and its mode cannot be changed: {}", path,
                                system_error()));
    }
    return {};
}

Result<Id, std::string> node_id(const std::string& data_dir, Id fresh) {
    const std::string path = data_dir + "/node.id";
    if (const auto text = read_file(path)) {
        const auto id = id_from_text("node", text->substr(0, text->find('\n')));
        if (!id)
            return fail(
                fmt::format("{} does not contain a node id; move it away, and the server creates another", path));
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

std::string seal_key_path(const std::string& data_dir) { return data_dir + "/seal.key"; }

Result<std::vector<store::SealKey>, std::string> seal_keys(const std::string& data_dir, const std::string& fresh) {
    const auto text = kept_secret(seal_key_path(data_dir), fresh);
    if (!text) return fail(text.error());
    auto keys = seal_keys_in(*text);
    if (keys.empty() || keys.front().lost)
        return fail(
            fmt::format("{} contains no key; move it away, and the server creates another", seal_key_path(data_dir)));
    return keys;
}

Result<void, std::string> add_lost_seal_keys(const std::string& data_dir, const std::vector<std::string>& ids) {
    auto text = read_file(seal_key_path(data_dir));
    if (!text) return fail(fmt::format("cannot read {}", seal_key_path(data_dir)));
    for (const std::string& id : ids) {
        if (!text->ends_with('\n')) text->push_back('\n');
        *text += fmt::format("lost {}\n", to_hex(id));
    }
    return write_file(seal_key_path(data_dir), *text);
}

std::vector<store::SealKey> read_seal_keys(const std::string& data_dir) {
    const auto text = read_file(seal_key_path(data_dir));
    return text ? seal_keys_in(*text) : std::vector<store::SealKey>();
}

std::optional<std::string> read_catalog(const std::string& data_dir) { return read_file(catalog_path(data_dir)); }

Result<void, std::string> write_catalog(const std::string& data_dir, const std::string& text) {
    return write_file(catalog_path(data_dir), text);
}

std::optional<std::string> read_admin_key(const std::string& data_dir) {
    auto text = read_file(data_dir + "/admin.key");
    if (!text) return std::nullopt;
    while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
    return text;
}

Result<void, std::string> write_server_note(const std::string& data_dir, const ServerNote& note) {
    return write_file(note_path(data_dir),
                      boost::json::serialize(boost::json::object{
                          {"url", note.url}, {"pid", note.pid}, {"started", note.started}, {"socket", note.socket}}) +
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

void remove_server_note(const std::string& data_dir, pid_t pid) {
    const auto note = read_server_note(data_dir);
    if (note && note->pid == pid) ::unlink(note_path(data_dir).c_str());
}

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
