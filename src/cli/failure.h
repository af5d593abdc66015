// A failed command: the reason, a hint, and the exit code.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/exit_code.h"
#include "cli/transport.h"

namespace interlock::cli {

struct Failure {
    ExitCode exit = ExitCode::refused;
    std::string code = {};  // The server's error code, or one of the command line.
    std::string detail = {};
    std::string hint = {};
    boost::json::value problem = {};  // The server's problem document, or null.
};

template <class T>
using Outcome = Result<T, Failure>;

Failure bad_usage(std::string detail, std::string hint);

// The failure of a response that is not 2xx. A change may have happened although its response is an error, so it can
// end with outcome_unknown.
enum class Asked { reading, changing };
Failure failure_of(const HttpResponse& response, Asked asked);

}  // namespace interlock::cli
