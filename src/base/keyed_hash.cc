#include "base/keyed_hash.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/ensure.h"

namespace interlock {
namespace {

// The algorithm of https://www.aumasson.jp/siphash/siphash.pdf, with one round per word and three at the end.
class Sip {
 public:
    explicit Sip(const HashKey& key)
        : v0_(key.k0 ^ 0x736f6d6570736575ull),
          v1_(key.k1 ^ 0x646f72616e646f6dull),
          v2_(key.k0 ^ 0x6c7967656e657261ull),
          v3_(key.k1 ^ 0x7465646279746573ull) {}

    void make_wide() { v1_ ^= 0xee; }

    void add(std::string_view text) {
        const char* at = text.data();
        const char* const end = at + (text.size() & ~std::size_t{7});
        for (; at != end; at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, at, sizeof word);
            add_word(word);
        }
        std::uint64_t last = std::uint64_t{text.size()} << 56;
        for (std::size_t i = 0; i < (text.size() & 7); ++i) {
            last |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
        }
        add_word(last);
    }
    std::uint64_t finish(std::uint64_t mark) {
        v2_ ^= mark;
        return finish_rounds();
    }
    std::uint64_t finish_again() {
        v1_ ^= 0xdd;
        return finish_rounds();
    }

 private:
    void add_word(std::uint64_t word) {
        v3_ ^= word;
        round();
        v0_ ^= word;
    }
    void round() {
        v0_ += v1_;
        v1_ = std::rotl(v1_, 13) ^ v0_;
        v0_ = std::rotl(v0_, 32);
        v2_ += v3_;
        v3_ = std::rotl(v3_, 16) ^ v2_;
        v0_ += v3_;
        v3_ = std::rotl(v3_, 21) ^ v0_;
        v2_ += v1_;
        v1_ = std::rotl(v1_, 17) ^ v2_;
        v2_ = std::rotl(v2_, 32);
    }
    std::uint64_t finish_rounds() {
        for (int i = 0; i < 3; ++i) round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

    std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace

std::string Hash128::bytes() const {
    std::string bytes(sizeof *this, '\0');
    std::memcpy(bytes.data(), this, sizeof *this);
    return bytes;
}

const HashKey& HashKey::of_process() {
    static const HashKey key = [] {
        HashKey drawn;
        std::array<std::uint64_t, 2> bits{};
        ensure(getrandom(bits.data(), sizeof bits, 0) == sizeof bits, "16 bytes are never short");
        drawn = {bits[0], bits[1]};
        return drawn;
    }();
    return key;
}

PairKey PairKey::draw() {
    PairKey drawn{};
    ensure(getrandom(&drawn, sizeof drawn, 0) == sizeof drawn, "48 bytes are never short");
    return drawn;
}

std::uint64_t keyed_hash(std::string_view text, const HashKey& key) {
    Sip sip(key);
    sip.add(text);
    return sip.finish(0xff);
}

Hash128 keyed_hash_128(std::string_view text, const HashKey& key) {
    Sip sip(key);
    sip.make_wide();
    sip.add(text);
    const std::uint64_t low = sip.finish(0xee);
    return {.high = sip.finish_again(), .low = low};
}

}  // namespace interlock
