#include "base/keyed_hash.h"

#include <string>
#include <unordered_set>

#include <gtest/gtest.h>

#include "base/by_text.h"
#include "base/id.h"
#include "base/strong.h"

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

TEST(KeyedHashTest, a_pair_is_hashed_by_both_numbers_and_the_key) {
    constexpr unsigned __int128 one = static_cast<unsigned __int128>(1) << 64;
    EXPECT_EQ(keyed_hash(5, 7, {.high = 3 * one, .low = 11 * one, .sum = 2 * one}), 3u * 5 + 11u * 7 + 2);
    EXPECT_NE(keyed_hash(5, 7), keyed_hash(5, 7, PairKey::draw()));
    EXPECT_EQ(keyed_hash(5, 7), keyed_hash(5, 7)) << "the key of the process stays";

    std::unordered_set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
        seen.insert(keyed_hash(i, 0));
        seen.insert(keyed_hash(0, i << 32));
        seen.insert(keyed_hash(i * 0xD6E8FEB86659FD93ull, i));
    }
    EXPECT_EQ(seen.size(), 3u * 1000 - 2) << "0, 0 is there three times";
}

TEST(KeyedHashTest, what_clients_choose_is_hashed_with_the_key_in_every_container) {
    using Name = Strong<struct NameTag, std::string>;
    const Id id{.high = 1, .low = 2};

    EXPECT_EQ(std::hash<Id>{}(id), keyed_hash(1, 2));
    EXPECT_EQ((std::hash<Strong<struct KeyTag, Id>>{}(Strong<struct KeyTag, Id>(id))), keyed_hash(1, 2));
    EXPECT_EQ(std::hash<Name>{}(Name("writer")), keyed_hash("writer"));
    EXPECT_EQ(ByText<int>::hasher{}("writer"), keyed_hash("writer"));
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
