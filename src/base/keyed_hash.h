// Hashes with a secret key, for all that a client chooses: SipHash-1-3 of 64 or 128 bits for texts, multiply-shift for
// pairs of numbers, such as ids.
//
//   (1) The key is drawn once per process. Without it, no one can make texts that collide, so that a table of what
//       clients sent cannot be slowed down, and a number that stands for a text cannot be made to stand for another.
//   (2) Under the key of the process the numbers mean nothing outside of it: they are not stored and not sent. Numbers
//       that are stored have a key of their own (store/seals.h).
//   (3) Two pairs that were chosen without the key have the same hash in one of 2^64 processes. The hash of a pair is
//       linear, so that a client who sees hashes could compute the key: it only places rows in tables.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace interlock {

struct HashKey {
    std::uint64_t k0 = 0;
    std::uint64_t k1 = 0;

    static const HashKey& of_process();
};

struct Hash128 {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    friend auto operator<=>(const Hash128&, const Hash128&) = default;
    std::string bytes() const;
};

std::uint64_t keyed_hash(std::string_view text, const HashKey& key = HashKey::of_process());
Hash128 keyed_hash_128(std::string_view text, const HashKey& key = HashKey::of_process());

struct PairKey {
    unsigned __int128 high, low, sum;

    static PairKey draw();
    static const PairKey& of_process() {
        static const PairKey key = draw();
        return key;
    }
};

// Dietzfelbinger's: strongly universal, and a tenth of SipHash's work.
inline std::uint64_t keyed_hash(std::uint64_t high, std::uint64_t low, const PairKey& key = PairKey::of_process()) {
    return static_cast<std::uint64_t>((key.high * high + key.low * low + key.sum) >> 64);
}

// For containers of strings; what is looked up need not be a string.
struct KeyedTextHash {
    using is_transparent = void;
    using is_avalanching = void;
    std::size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

}  // namespace interlock

// A keyed hash is as good as random already.
template <>
struct std::hash<interlock::Hash128> {
    std::size_t operator()(const interlock::Hash128& hash) const { return hash.low; }
};
