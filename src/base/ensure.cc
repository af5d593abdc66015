#include "base/ensure.h"

#include <cstdio>
#include <cstdlib>

namespace interlock {

void ensure_failed(const char* condition, const char* why, const char* file, int line) {
    std::fprintf(stderr, "interlock: contradiction: %s (%s) at %s:%d\n", why, condition, file, line);
    std::abort();
}

}  // namespace interlock
