#include "base/keyed_hash.h"

#include <string>
#include <unordered_set>

#include <gtest/gtest.h>

namespace interlock {
namespace {

constexpr HashKey counting{.k0 = 0x0706050403020100, .k1 = 0x0f0e0d0c0b0a0908};

std::string counted(std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i));
    return text;
}

// From an implementation of its own, which also gives the published number of SipHash-2-4.
TEST(KeyedHashTest, it_is_siphash_1_3) {
    EXPECT_EQ(keyed_hash("", counting), 0xabac0158050fc4dcull);
    EXPECT_EQ(keyed_hash(counted(15), counting), 0xd320d86d2a519956ull);
    EXPECT_EQ(keyed_hash_128(counted(15), counting),
              (Hash128{.high = 0x9017e1eeccd2129ull, .low = 0x6c52bdb205557ec1ull}));
}

TEST(KeyedHashTest, the_key_decides) {
    EXPECT_NE(keyed_hash("text", {.k0 = 1, .k1 = 2}), keyed_hash("text", {.k0 = 1, .k1 = 3}));
    EXPECT_EQ(keyed_hash("text"), keyed_hash("text")) << "the key of the process stays";
    EXPECT_NE(HashKey::of_process().k0, HashKey::of_process().k1);
    EXPECT_NE(keyed_hash("text"), keyed_hash("text", {})) << "and was drawn";
}

TEST(KeyedHashTest, every_length_and_every_byte_counts) {
    std::unordered_set<std::uint64_t> seen;
    for (std::size_t size = 0; size < 40; ++size) {
        std::string text(size, '\0');
        EXPECT_TRUE(seen.insert(keyed_hash(text)).second);
        for (char& c : text) {
            c = 1;
            EXPECT_TRUE(seen.insert(keyed_hash(text)).second);
            c = 0;
        }
    }
}

}  // namespace
}  // namespace interlock
