// Chance, from a seed: xoshiro256**, started by splitmix64. The same seed gives the same numbers on every machine,
// which the distributions of the standard library do not promise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace interlock::sim {

class Random {
 public:
    explicit Random(std::uint64_t seed) {
        for (std::uint64_t& word : state_) {
            seed += 0x9E3779B97F4A7C15ull;
            std::uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
            word = z ^ (z >> 31);
        }
    }

    std::uint64_t next() {
        const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

    // 0 … count - 1.
    std::uint64_t below(std::uint64_t count) {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * count) >> 64);
    }
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
    }
    std::int32_t between32(std::int32_t low, std::int32_t high) {
        return static_cast<std::int32_t>(between(low, high));
    }
    // True this many times out of a million.
    bool chance(std::uint32_t per_million) { return below(1'000'000) < per_million; }
    bool percent(std::uint32_t percent) { return below(100) < percent; }

    template <class T>
    const T& pick(const std::vector<T>& from) {
        return from[below(from.size())];
    }
    template <class T>
    T& pick(std::vector<T>& from) {
        return from[below(from.size())];
    }
    template <class T>
    T pick(std::initializer_list<T> from) {
        return from.begin()[below(from.size())];
    }

    // Many small ones, now and then a large one: how waiting times and amounts are spread in the world.
    std::int64_t spread(std::int64_t mean) {
        const auto bits = static_cast<unsigned>(below(4));
        return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(mean) * 2 + 1)) >> bits << (bits / 3);
    }

 private:
    static std::uint64_t rotate(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

    std::array<std::uint64_t, 4> state_{};
};

}  // namespace interlock::sim
