// Why a command did not do what was asked: a sentence, what to do about it, and how the process ends.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/exit_code.h"
#include "cli/transport.h"

namespace interlock::cli {

struct Failure {
    ExitCode exit = ExitCode::refused;
    std::string code = {};  // The server's word for it, or ours where the server did not speak.
    std::string detail = {};
    std::string hint = {};
    boost::json::value problem = {};  // What the server said, whole; null if it said nothing.
};

template <class T>
using Outcome = Result<T, Failure>;

Failure bad_usage(std::string detail, std::string hint);

// An answer that is not 2xx. `changing` says that the request would have changed something: then an answer which leaves
// the outcome open is not the same as a plain failure.
enum class Asked { reading, changing };
Failure failure_of(const HttpResponse& response, Asked asked);

}  // namespace interlock::cli
