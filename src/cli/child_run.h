// `interlock run` in a run: the command becomes a child of that run. The server starts it, beside the run and not in
// it, and this program follows it.
//
//   1. It acts by the run's key only, so it starts nothing that the run itself may not start (ADR 33).
//   2. A signal that would end this program cancels the child first.
#pragma once

#include <boost/json.hpp>

#include "cli/context.h"

namespace interlock::cli {

// `body` is the request as its flags say.
ExitCode start_child_run(Context& context, const Invocation& invocation, boost::json::object body);

// A run that this command does not follow: its id, and how to get to it.
ExitCode leave_behind(const Context& context, const ApiResponse& answer);

}  // namespace interlock::cli
