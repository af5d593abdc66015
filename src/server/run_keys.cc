#include "server/run_keys.h"

#include <fmt/format.h>

#include "base/ensure.h"
#include "base/sha256.h"
#include "server/data_dir.h"
#include "server/keyed_hash.h"

namespace interlock::server {
namespace {

// "01jcq3w8y5e9m8t2k4x6v0a1bc" for run_01jcq3w8y5e9m8t2k4x6v0a1bc. The letter keeps it apart from other keys' ids.
std::string key_id(core::RunId run) { return to_text("r", run.value).erase(1, 1); }

}  // namespace

Result<void, std::string> RunKeys::load(const std::string& data_dir) {
    auto secret = run_secret(data_dir, api::make_secret());
    if (!secret) return fail(secret.error());
    secret_ = std::move(*secret);
    return {};
}

std::string RunKeys::open(const core::Run& run) {
    const std::string id = key_id(run.id);
    const std::string what = fmt::format("{} {}", id, run.fence.value);
    const std::string text = fmt::format("ilk_{}_{}", id, to_hex(keyed_hash(secret_, what)));
    const auto key = api::parse_key(text);
    ensure(key.has_value(), "what we make is a key");
    core::ApiKey row;
    row.id = key->id;
    row.hash = key->hash;
    row.scopes = {"agent"};
    row.agent = run.who.agent;
    row.run = run.id;
    row.revoked_at = far_past;
    keys_.put(org_, row);
    return text;
}

void RunKeys::close(core::RunId run) { keys_.remove(key_id(run)); }

}  // namespace interlock::server
