// The files that commands read and write.
#pragma once

#include <cstdio>
#include <string>

#include "cli/failure.h"

namespace interlock::cli {

// A new file that only its owner can read: what is exported was said in confidence. Never one that is there already.
Outcome<std::FILE*> make_file(const std::string& path);

// A regular file to read: never a pipe, a device or a socket, which could make a command wait for ever. A link at the
// end of the path is followed only where the person named the file, not where it was found in a directory. The error is
// the rest of a sentence: "it is a symbolic link".
enum class Links { follow, refuse };
Result<std::FILE*, std::string> open_regular_file(const std::string& path, Links links);

std::string read_all(std::FILE* in);

}  // namespace interlock::cli
