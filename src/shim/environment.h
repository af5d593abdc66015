// What of an environment reaches a run: what programs need to find their way, and what was asked for by name.
#pragma once

#include <string>
#include <vector>

namespace interlock::shim {

// Of `environ` ("NAME=value"), what every run may have and what is named in `also`. The first of two with one name
// stays. INTERLOCK_* never passes, whoever names it: a run inside another would speak with the outer one's key.
std::vector<std::string> allowed_environment(const std::vector<std::string>& environ,
                                             const std::vector<std::string>& also);

}  // namespace interlock::shim
