// Keeps other programs of the same user out of this process: none can trace it, copy its memory or descriptors, or read
// its environment. Root still can. A crash leaves no core file. Lasts until the process becomes another program.
#pragma once

#include <sys/prctl.h>

namespace interlock::shim {

// In builds with sanitizers this does nothing: the search for leaks traces its own process. Files in /proc/self belong
// to root from then on. A child that sets up a user namespace makes itself dumpable for that time.
inline void become_undumpable() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#elif defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && !__has_feature(memory_sanitizer)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
#else
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

}  // namespace interlock::shim
