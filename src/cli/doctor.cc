#include "cli/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/shell.h"
#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;
using Level = DoctorFinding::Level;

constexpr std::int64_t space_fail_bytes = 100'000'000;
constexpr std::int64_t space_warn_bytes = 1'000'000'000;
constexpr rlim_t open_files_min = 1024;
constexpr std::chrono::seconds clock_difference_max{5};
constexpr const char* default_url = "http://127.0.0.1:4100";

json::value to_json(const std::vector<DoctorFinding>& findings, bool ok);
std::string to_text(const std::vector<DoctorFinding>& findings, const CliOutput& output);
DoctorFinding look_at_the_port(const Context& context, const Failure& failure);
void add_own_findings(ApiClient& client, std::vector<DoctorFinding>& findings);

}  // namespace

ExitCode doctor(Context& context, const Invocation&) {
    const std::string data_dir = find_data_dir(context.settings, context.environment);
    std::vector<DoctorFinding> findings{check_data_dir(data_dir), check_key_file(data_dir)};
    std::vector<DoctorFinding> of_server = check_server(context);
    // The server's own report on its disk and limits comes first, because it may run elsewhere.
    for (DoctorFinding& finding : std::array{check_disk_space(data_dir), check_open_files()}) {
        if (std::ranges::find(of_server, finding.what, &DoctorFinding::what) == of_server.end())
            findings.push_back(finding);
    }
    std::ranges::move(of_server, std::back_inserter(findings));

    const bool ok = std::ranges::none_of(findings, [](const DoctorFinding& f) { return f.level == Level::fail; });
    if (context.settings.json) {
        context.output.data(json::serialize(to_json(findings, ok)) + "\n");
    } else if (!context.settings.quiet || !ok) {
        context.output.data(to_text(findings, context.output));
    }
    return ok ? ExitCode::ok : ExitCode::refused;
}

DoctorFinding check_data_dir(const std::string& data_dir) {
    const std::string what = "data directory";
    struct stat found{};
    if (stat(data_dir.c_str(), &found) != 0) {
        return {Level::warn, what, fmt::format("{} does not exist yet", data_dir), "interlock up"};
    }
    if (!S_ISDIR(found.st_mode)) {
        return {Level::fail, what, data_dir + " is not a directory", "set --data-dir or INTERLOCK_DATA to a directory"};
    }
    if ((found.st_mode & 077) != 0) {
        return {Level::fail, what, fmt::format("other users can access {} ({:04o})", data_dir, found.st_mode & 0777),
                fmt::format("chmod 700 {}", data_dir)};
    }
    return {Level::ok, what, data_dir};
}

DoctorFinding check_key_file(const std::string& data_dir) {
    const std::string what = "admin key";
    const std::string path = data_dir + "/admin.key";
    struct stat found{};
    if (stat(path.c_str(), &found) != 0) {
        return {Level::ok, what, "not kept in a file"};
    }
    if ((found.st_mode & 077) != 0) {
        return {Level::fail, what, fmt::format("other users can read {} ({:04o})", path, found.st_mode & 0777),
                fmt::format("chmod 600 {}, then replace the key if another user may have read it", path)};
    }
    return {Level::warn, what,
            fmt::format("every program of this user can read {}, and the command line does not need it", path),
            fmt::format("revoke the key and remove the file: interlock keys revoke \"$(cut -d_ -f2 {0})\" && rm {0}",
                        shell_word(path))};
}

DoctorFinding check_disk_space(const std::string& data_dir) {
    const std::string what = "disk space";
    // The server creates a missing directory in its parent.
    std::filesystem::path at = std::filesystem::absolute(data_dir);
    std::error_code ignored;
    while (!std::filesystem::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
    struct statvfs found{};
    if (statvfs(at.c_str(), &found) != 0) {
        return {Level::warn, what,
                fmt::format("cannot read the free space of {}: {}", at.string(), std::strerror(errno)), "df"};
    }
    const auto free = static_cast<std::int64_t>(found.f_bavail) * static_cast<std::int64_t>(found.f_frsize);
    const std::string detail = fmt::format("{} free at {}", size(free), at.string());
    if (free < space_fail_bytes)
        return {Level::fail, what, detail, "free disk space, because a full disk stops every change"};
    if (free < space_warn_bytes) return {Level::warn, what, detail, "free disk space soon"};
    return {Level::ok, what, detail};
}

DoctorFinding check_open_files() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return {Level::warn, "open files", "the limit cannot be read", "ulimit -n"};
    const std::string detail =
        fmt::format("at most {}", limit.rlim_cur == RLIM_INFINITY ? "any number" : fmt::format("{}", limit.rlim_cur));
    if (limit.rlim_cur >= open_files_min) return {Level::ok, "open files", detail};
    return {Level::warn, "open files", detail,
            fmt::format("run 'ulimit -n {}' before 'interlock up', because each connection is an open file",
                        open_files_min * 4)};
}

DoctorFinding check_clock(const std::string& date, Instant now) {
    std::tm parts{};
    const char* end = strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (date.empty() || end == nullptr) return {Level::warn, "clock", "the server's response has no date", ""};
    const Instant there = Instant(std::chrono::seconds(timegm(&parts)));
    const Duration apart = there > now ? there - now : now - there;
    if (apart <= clock_difference_max) return {Level::ok, "clock", "the same as the server's"};
    return {Level::warn, "clock",
            fmt::format("{} {} the server's", duration(apart), there > now ? "behind" : "ahead of"),
            "use NTP on both machines, because windows, leases and schedules follow the server's clock"};
}

std::vector<DoctorFinding> check_server(const Context& context) {
    const auto server = find_server(context.settings, context.environment);
    if (!server) return {look_at_the_port(context, server.error())};
    ApiClient client(context.world.dial(server->address(), context.timeout()), context.world,
                     {.key = server->key, .timeout = context.timeout()});
    const auto status = client.get("/v1/status");
    if (!status && status.error().exit == ExitCode::not_permitted) {
        return {{Level::ok, "server", server->url + " responds"},
                {Level::fail, "key", status.error().detail, status.error().hint}};
    }
    if (!status) return {{Level::fail, "server", server->url + ": " + status.error().detail, status.error().hint}};

    const std::string version = text_of(member_of(status->document, "version"));
    if (version.empty()) {
        return {{Level::fail, "server", fmt::format("a server that is not Interlock listens at {}", server->url),
                 "stop it, or use another port: interlock up --listen 127.0.0.1:4101"}};
    }
    std::vector<DoctorFinding> findings{{Level::ok, "server", server->url + " responds and accepts the key"}};
    if (version == context.version) {
        findings.push_back({Level::ok, "version", version});
    } else {
        findings.push_back({Level::warn, "version",
                            fmt::format("the server has version {}, this command {}", version, context.version),
                            "restart the server with this version, or use the command of the server's version"});
    }
    findings.push_back(check_clock(status->response.header("Date"), context.world.now()));
    add_own_findings(client, findings);
    return findings;
}

namespace {

// There is no server file. Checks if a process listens at the default address.
DoctorFinding look_at_the_port(const Context& context, const Failure& failure) {
    const auto answer =
        context.world.dial(default_url, std::chrono::seconds(2))->send({.method = "GET", .target = "/healthz"});
    const bool silent = !answer && answer.error().kind == TransportError::Kind::not_reachable;
    if (silent) return {Level::fail, "server", failure.detail, failure.hint};
    const bool interlock = answer && answer->status == 200;
    return {Level::fail, "server", failure.detail,
            interlock
                ? fmt::format("a server responds at {0}; if it is yours, pass --url {0} --key KEY, or --data-dir",
                              default_url)
                : fmt::format("another program listens at {}; use another port: interlock up --listen 127.0.0.1:4101",
                              default_url)};
}

constexpr std::array names{"ok", "warn", "fail"};

// Adds what the server reports about itself. Older servers, and keys without the scope, get no such report.
void add_own_findings(ApiClient& client, std::vector<DoctorFinding>& findings) {
    const auto answer = client.get("/v1/doctor");
    if (!answer) return;
    const auto* items = member_of(answer->document, "items").if_array();
    for (const json::value& item : items == nullptr ? json::array() : *items) {
        const auto level = std::ranges::find(names, text_of(member_of(item, "level"))) - names.begin();
        const std::string what = text_of(member_of(item, "what"));
        const bool is_known = std::ranges::find(findings, what, &DoctorFinding::what) != findings.end();
        if (is_known || level == std::ssize(names)) continue;
        findings.push_back(
            {static_cast<Level>(level), what, text_of(member_of(item, "detail")), text_of(member_of(item, "do"))});
    }
}

constexpr std::array styles{Style::green, Style::yellow, Style::red};

json::value to_json(const std::vector<DoctorFinding>& findings, bool ok) {
    json::array checks;
    for (const DoctorFinding& finding : findings) {
        checks.push_back(json::object{{"level", names[static_cast<std::size_t>(finding.level)]},
                                      {"what", finding.what},
                                      {"detail", finding.detail},
                                      {"advice", finding.advice}});
    }
    return json::object{{"ok", ok}, {"checks", std::move(checks)}};
}

std::string to_text(const std::vector<DoctorFinding>& findings, const CliOutput& output) {
    std::string text;
    for (const DoctorFinding& finding : findings) {
        const auto level = static_cast<std::size_t>(finding.level);
        text += fmt::format("{}  {}  {}\n", output.paint(styles[level], padded(names[level], 4)),
                            padded(finding.what, 14), printable(finding.detail));
        if (!finding.advice.empty())
            text += fmt::format("{}{} {}\n", std::string(22, ' '), output.styled ? "→" : "->", finding.advice);
    }
    return text;
}

}  // namespace
}  // namespace interlock::cli
