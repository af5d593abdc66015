// `interlock apply DIR`: makes the server have what the files say.
#pragma once

#include "cli/context.h"

namespace interlock::cli {

ExitCode apply(Context& context, const Invocation& invocation);

}  // namespace interlock::cli
