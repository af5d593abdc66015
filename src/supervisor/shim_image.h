// The shim, as part of this program: the server and the command line start it without looking for a file, and a program
// that is replaced while it runs still starts the shim it was built with.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace interlock::supervisor {

// The static program, as it was built.
std::string_view shim_image();

// A file that exists only in memory and holds the image, for execve() by way of shim_path(). It is made once, cannot be
// changed, and is not inherited. Where the system allows no such file, the error says why; `interlock shim` does the
// same.
Result<int, std::string> shim_fd();
// "/proc/self/fd/N": good in this process, and in its child before exec.
Result<std::string, std::string> shim_path();

}  // namespace interlock::supervisor
