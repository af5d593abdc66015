#include "base/sha256.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

namespace interlock {
namespace {

TEST(Sha256, agrees_with_the_published_examples) {
    EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, a_zero_byte_is_a_byte_like_any_other) {
    using namespace std::string_view_literals;

    EXPECT_EQ(to_hex(sha256("\0"sv)), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    EXPECT_NE(sha256("a\0b"sv), sha256("a\0c"sv));
}

TEST(Sha256, the_pieces_in_which_input_comes_make_no_difference) {
    std::mt19937_64 random(3);
    std::string text(300, '\0');
    for (char& c : text) c = static_cast<char>(random());

    for (int i = 0; i < 1'000; ++i) {
        Sha256Hasher hasher;
        std::string_view rest = text;
        while (!rest.empty()) {
            const std::size_t length = std::min<std::size_t>(random() % 80, rest.size());
            hasher.add(rest.substr(0, length));
            rest.remove_prefix(length);
        }

        ASSERT_EQ(hasher.finish(), sha256(text));
    }
}

}  // namespace
}  // namespace interlock
