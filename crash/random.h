// Numbers that look random and come from a seed: the same seed, the same numbers, on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace interlock::crash {

class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {  // splitmix64
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    std::uint64_t below(std::uint64_t end) { return next() % end; }
    bool percent(unsigned chance) { return below(100) < chance; }
    void fill(char* bytes, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(next());
    }

 private:
    std::uint64_t state_;
};

}  // namespace interlock::crash
