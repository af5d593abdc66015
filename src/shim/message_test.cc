#include "shim/message.h"

#include <gtest/gtest.h>

namespace interlock::shim {
namespace {

using namespace std::string_literals;

std::vector<ShimMessage> all_in(MessageReader& reader) {
    std::vector<ShimMessage> messages;
    while (auto message = reader.next()) messages.push_back(std::move(*message));
    return messages;
}

TEST(ShimMessage, IsLengthsAndBytes) {
    EXPECT_EQ(encode({"stop", ""}), "\x0c\0\0\0\x04\0\0\0stop\0\0\0\0"s);
    EXPECT_EQ(encode({std::string(300, 'x')}).substr(0, 8), "\x30\x01\0\0\x2c\x01\0\0"s);
}

TEST(ShimMessage, ComesBackAsItWas) {
    const std::vector<ShimMessage> sent = {
        {"hello"}, {"launch", "", "a\0b"s, "\xff\n"}, {std::string(100'000, 'y'), "z"}};
    MessageReader reader;
    for (const ShimMessage& message : sent) reader.add(encode(message));

    EXPECT_EQ(all_in(reader), sent);
    EXPECT_FALSE(reader.broken());
}

TEST(ShimMessage, MayArriveInAnyParts) {
    const std::vector<ShimMessage> sent = {{"hello", "1"}, {"beat", "", "22"}, {"ended"}};
    std::string bytes;
    for (const ShimMessage& message : sent) bytes += encode(message);

    for (std::size_t part = 1; part <= bytes.size(); ++part) {
        MessageReader reader;
        std::vector<ShimMessage> received;
        for (std::size_t at = 0; at < bytes.size(); at += part) {
            reader.add(std::string_view(bytes).substr(at, part));
            for (ShimMessage& message : all_in(reader)) received.push_back(std::move(message));
        }
        EXPECT_EQ(received, sent) << "in parts of " << part;
    }
}

TEST(ShimMessage, OfTheLargestSizeIsTakenAndALargerOneIsNot) {
    MessageReader reader;
    reader.add(encode({std::string(message_bytes_max - 4, 'x')}));
    EXPECT_TRUE(reader.next());

    reader.add(encode({std::string(message_bytes_max - 3, 'x')}).substr(0, 100));
    EXPECT_FALSE(reader.next());
    EXPECT_TRUE(reader.broken());
}

TEST(ShimMessage, WhoseLengthsDoNotAddUpBreaksTheStreamForGood) {
    const std::string good = encode({"good"});
    for (const std::string& bad :
         {"\x05\0\0\0\x02\0\0\0x"s, "\x03\0\0\0\0\0\0"s, "\x08\0\0\0\xff\xff\xff\xffxxxx"s, "\0\0\0\0"s}) {
        MessageReader reader;
        reader.add(good + bad + good);

        EXPECT_EQ(all_in(reader), std::vector<ShimMessage>{{"good"}});
        EXPECT_TRUE(reader.broken());
        reader.add(good);
        EXPECT_FALSE(reader.next());
    }
}

}  // namespace
}  // namespace interlock::shim
