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

// RFC 4231: test cases 1, 2, 6 and 7. The keys of the last two are longer than a block.
TEST(HmacSha256, agrees_with_the_published_examples) {
    const std::string long_key(131, '\xaa');
    EXPECT_EQ(to_hex(HmacSha256(std::string(20, '\x0b')).of("Hi There")),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(to_hex(HmacSha256("Jefe").of("what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(to_hex(HmacSha256(long_key).of("Test Using Larger Than Block-Size Key - Hash Key First")),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    EXPECT_EQ(to_hex(HmacSha256(long_key).of("This is a test using a larger than block-size key and a larger than "
                                             "block-size data. The key needs to be hashed before being used by the "
                                             "HMAC algorithm.")),
              "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(HmacSha256, one_key_serves_many_messages_in_pieces) {
    const HmacSha256 key("Jefe");
    for (int i = 0; i < 2; ++i) {
        Sha256Hasher message = key.begin();
        message.add("what do ya want ").add("for nothing?");
        EXPECT_EQ(key.finish(message), key.of("what do ya want for nothing?"));
        EXPECT_EQ(to_hex(key.of("")), "923598ca6d64af2a5dba79dcd021a8a0fe5c5f557519adaaf0ad532d4506dd30") << i;
    }
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
