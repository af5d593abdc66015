// Whether a person agrees to what a command is about to do.
#pragma once

#include <string>

#include "cli/context.h"

namespace interlock::cli {

// --yes is an answer. Otherwise the question is put on the terminal; `cannot_ask` is the failure where there is none to
// ask.
Outcome<bool> agreed(const Context& context, const Invocation& invocation, const std::string& question,
                     Failure cannot_ask);

}  // namespace interlock::cli
