// `interlock export` and `interlock import`: what a server was told, as lines of JSON, to carry it to another one.
//
//   (1) Every line is an object with a "kind". The first says what the file is; the last counts the lines before it and
//       has the SHA-256 of their bytes.
//   (2) An import sends nothing before it has read the whole file and found count and checksum right, and then nothing
//       else than it has read.
//   (3) Every request of an import has a key made from the lines it comes from: the same file again changes nothing.
//
// The ledger is not in it: what was spent is not carried from one server to another. A backup is.
#pragma once

#include "cli/context.h"

namespace interlock::cli {

ExitCode export_everything(Context& context, const Invocation& invocation);
ExitCode import_everything(Context& context, const Invocation& invocation);

}  // namespace interlock::cli
