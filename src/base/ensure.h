// ensure(): a condition that only our own mistake can break. It stays on in production: a ledger that has contradicted
// itself must stop before it writes. Never used for what a client, a disk or another process can cause.
#pragma once

namespace interlock {

[[noreturn]] void ensure_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace interlock

#define ensure(condition, why) \
    (static_cast<bool>(condition) ? void(0) : ::interlock::ensure_failed(#condition, why, __FILE__, __LINE__))
