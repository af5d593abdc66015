#include "shim/environment.h"

#include <algorithm>
#include <string_view>

namespace interlock::shim {
namespace {

// A list of what passes, not of what does not: nobody knows the names of all secrets. What is here says who and where
// somebody is, how they like their text, and how the network is reached; it opens nothing by itself.
//
// Left out on purpose, to be named by whoever wants them:
//   SSH_AUTH_SOCK, GPG_AGENT_INFO, DBUS_*, XDG_RUNTIME_DIR   whoever has them acts as their user on other machines
//   DISPLAY, WAYLAND_DISPLAY                                 whoever is on a screen can read what is typed there
//   LD_*, BASH_ENV, NODE_OPTIONS, PYTHONSTARTUP, GIT_DIR     they put other people's code or another repository in
//   PWD, OLDPWD, SHLVL, _                                    true where the caller is, and not where the run is
constexpr std::string_view names[] = {
    // Who and where.
    "HOME", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "HOSTNAME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
    "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
    // Language, time and looks.
    "LANG", "LANGUAGE", "TZ", "TERM", "TERMINFO", "TERMINFO_DIRS", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR",
    "CLICOLOR_FORCE", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "EDITOR", "VISUAL", "PAGER",
    // The way out, and whom to trust there.
    "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY",
    "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
    // Toolchains outside their usual place, which PATH alone does not find.
    "CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "NVM_DIR", "PNPM_HOME", "BUN_INSTALL", "PYENV_ROOT",
    "VIRTUAL_ENV"};

bool passes(std::string_view name, const std::vector<std::string>& also) {
    if (name.empty() || name.starts_with("INTERLOCK_")) return false;
    return name.starts_with("LC_") || std::find(std::begin(names), std::end(names), name) != std::end(names) ||
           std::find(also.begin(), also.end(), name) != also.end();
}

}  // namespace

std::vector<std::string> allowed_environment(const std::vector<std::string>& environ,
                                             const std::vector<std::string>& also) {
    std::vector<std::string> allowed;
    std::vector<std::string_view> seen;
    for (const std::string& variable : environ) {
        const std::size_t equals = variable.find('=');
        if (equals == std::string::npos) continue;
        const std::string_view name = std::string_view(variable).substr(0, equals);
        if (!passes(name, also) || std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
        seen.push_back(name);
        allowed.push_back(variable);
    }
    return allowed;
}

}  // namespace interlock::shim
