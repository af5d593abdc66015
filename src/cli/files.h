// The files that commands read and write.
#pragma once

#include <cstdio>
#include <string>

#include "cli/failure.h"

namespace interlock::cli {

// A new file that only its owner can read: what is exported was said in confidence. Never one that is there already.
Outcome<std::FILE*> make_file(const std::string& path);

std::string read_all(std::FILE* in);

}  // namespace interlock::cli
