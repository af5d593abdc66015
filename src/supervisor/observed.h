// What the machine, the files and the messages say of a run's shim, in the words of watch.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "shim/protocol.h"
#include "supervisor/shim_secrets.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

Proof proof_of(ShimSecrets::Verdict verdict);

// Of every message but `hello`, which takes more to judge.
WatchEvent event_of(const shim::FromShim& message, const std::function<Proof(const std::string& secret)>& prove);

event::Answered answered_with(RunCommandKind question, const engine::SubmitResult& answer);

// `home` is the run's directory among the server's data.
std::optional<ShimFile> look_at_shim_file(const std::string& home);
ShimSeen look_at_shim(const shim::ShimState& shim, const std::string& home);
event::EndLooked look_at_end(const shim::ShimState& shim, const std::string& run);

}  // namespace interlock::supervisor
