#include "supervisor/shim_secrets.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/ensure.h"
#include "base/id.h"
#include "shim/fd.h"

namespace interlock::supervisor {
namespace {

constexpr const char* file_name = "/shim-secrets";
constexpr std::size_t secret_bytes = 32;

// Takes the same time for every wrong hash.
bool same(const Sha256& a, const Sha256& b) {
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
    return difference == 0;
}

int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// One hash in hexadecimal digits per line. Other lines are ignored: a full disk may have cut one short.
std::vector<Sha256> read_hashes(std::string_view text) {
    std::vector<Sha256> hashes;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        Sha256 hash{};
        if (line.size() != 2 * hash.size() || !std::ranges::all_of(line, [](char c) { return digit(c) >= 0; }))
            continue;
        for (std::size_t i = 0; i < hash.size(); ++i) {
            hash[i] = static_cast<std::uint8_t>(digit(line[2 * i]) * 16 + digit(line[2 * i + 1]));
        }
        hashes.push_back(hash);
    }
    return hashes;
}

}  // namespace

std::string ShimSecrets::directory_of(core::RunId run) const {
    return data_dir_ + "/runs/" + to_text("run", run.value);
}

std::vector<Sha256>& ShimSecrets::hashes_of(core::RunId run) {
    const auto [found, is_new] = hashes_.try_emplace(run.value);
    if (is_new) found->second = read_hashes(shim::read_file(directory_of(run) + file_name).value_or(""));
    return found->second;
}

std::string ShimSecrets::issue(core::RunId run) {
    std::array<char, secret_bytes> random{};
    ensure(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()),
           "32 bytes are never short");
    std::string secret = to_hex(std::string_view(random.data(), random.size()));
    const Sha256 hash = sha256(secret);

    const std::lock_guard lock(mutex_);
    hashes_of(run).push_back(hash);
    const std::string directory = directory_of(run);
    ::mkdir(directory.c_str(), 0700);
    const shim::Fd file(
        ::open((directory + file_name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    // Without the file only this server knows the secret, and the next one believes the shim by its pid and start time.
    if (file) (void)shim::write_all(file.get(), to_hex(hash) + "\n");
    return secret;
}

ShimSecrets::Verdict ShimSecrets::check(core::RunId run, std::string_view shown) {
    const Sha256 hash = sha256(shown);
    const std::lock_guard lock(mutex_);
    const std::vector<Sha256>& known = hashes_of(run);
    if (known.empty()) return Verdict::none_issued;
    const bool proven = std::ranges::any_of(known, [&](const Sha256& each) { return same(each, hash); });
    return proven ? Verdict::proven : Verdict::refused;
}

void ShimSecrets::forget(core::RunId run) {
    const std::lock_guard lock(mutex_);
    hashes_.erase(run.value);
}

}  // namespace interlock::supervisor
