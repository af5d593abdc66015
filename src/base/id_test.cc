#include "base/id.h"
#include "base/base_test_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace interlock {
namespace {

using namespace std::chrono_literals;

TEST(Id, has_the_bits_of_a_uuid_of_version_7) {
    // The example of RFC 9562, appendix A.6.
    const Id id = time_ordered_id(from_micros(0x017F22E279B0 * std::int64_t{1000}), 0xCC3, 0x18C4DC0C0C07398F);

    EXPECT_EQ(id, id_from_uuid("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"));
}

TEST(Id, a_later_millisecond_sorts_later_whatever_the_entropy) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 100'000; ++i) {
        const Instant at = from_micros(static_cast<std::int64_t>(random() >> 8) % micros(far_future));
        const Id earlier = time_ordered_id(at, random(), random());
        const Id later = time_ordered_id(at + 1ms, random(), random());

        ASSERT_LT(earlier, later);
        ASSERT_LT(to_text("run", earlier), to_text("run", later)) << "text sorts as the ids do";
    }
}

TEST(Id, inside_a_millisecond_the_entropy_decides_high_part_first) {
    EXPECT_LT(time_ordered_id(morning, 1, ~0ull), time_ordered_id(morning, 2, 0));
    EXPECT_LT(time_ordered_id(morning, 1, 1), time_ordered_id(morning, 1, 2));
    EXPECT_EQ(time_ordered_id(morning, 5, 5), time_ordered_id(morning + 500us, 5, 5));
}

TEST(Id, entropy_never_spills_into_time_version_or_variant) {
    const Id none = time_ordered_id(morning, 0, 0);
    const Id all = time_ordered_id(morning, ~0ull, ~0ull);

    EXPECT_EQ(none.high ^ all.high, 0xFFFu);
    EXPECT_EQ(none.low ^ all.low, 0x3FFF'FFFF'FFFF'FFFFull);
    EXPECT_TRUE(is_time_ordered(none));
    EXPECT_TRUE(is_time_ordered(all));
    EXPECT_EQ(made_at(all), made_at(none));
}

TEST(Id, says_in_which_millisecond_it_was_made) {
    EXPECT_EQ(made_at(time_ordered_id(morning, 1, 2)), from_micros(1'794'733'200'123'000));
    EXPECT_EQ(made_at(time_ordered_id(far_past, 1, 2)), far_past);
    EXPECT_EQ(made_at(time_ordered_id(far_future, 1, 2)), far_future);
}

TEST(Id, a_time_out_of_range_counts_as_the_nearest_one_inside) {
    EXPECT_EQ(time_ordered_id(from_micros(-1), 1, 2), time_ordered_id(far_past, 1, 2));
    EXPECT_EQ(time_ordered_id(from_micros(INT64_MIN), 1, 2), time_ordered_id(far_past, 1, 2));
    EXPECT_EQ(time_ordered_id(from_micros(INT64_MAX), 1, 2), time_ordered_id(far_future, 1, 2));
}

TEST(Id, an_id_from_a_hash_is_always_the_same_and_not_ordered_by_time) {
    EXPECT_EQ(id_from_hash("order-17"), id_from_hash("order-17"));
    EXPECT_NE(id_from_hash("order-17"), id_from_hash("order-18"));
    EXPECT_NE(id_from_hash(""), Id{});
    // The first 16 bytes of SHA-256("abc"), with version 8 and the variant set: it must be this one in every release,
    // because a retry may come after an upgrade.
    EXPECT_EQ(id_from_hash("abc"), id_from_uuid("ba7816bf-8f01-8fea-8141-40de5dae2223"));

    std::set<Id> seen;
    for (int i = 0; i < 10'000; ++i) {
        const Id id = id_from_hash("key " + std::to_string(i));
        ASSERT_FALSE(is_time_ordered(id));
        ASSERT_TRUE(seen.insert(id).second);
    }
}

TEST(Id, only_version_7_is_ordered_by_time) {
    constexpr std::string_view versions = "0123456789abcdef";
    for (const char version : versions) {
        std::string text = "017f22e2-79b0-?cc3-98c4-dc0c0c07398f";
        text[14] = version;
        const auto id = id_from_uuid(text);
        ASSERT_TRUE(id) << text;
        EXPECT_EQ(is_time_ordered(*id), version == '7') << text;
    }
}

TEST(Id, text_is_the_prefix_and_26_characters_of_lower_case_base_32) {
    EXPECT_EQ(to_text("run", Id{}), "run_00000000000000000000000000");
    EXPECT_EQ(to_text("run", Id{.high = ~0ull, .low = ~0ull}), "run_7zzzzzzzzzzzzzzzzzzzzzzzzz");
    EXPECT_EQ(to_text("s", Id{.high = 0, .low = 31}), "s_0000000000000000000000000z");
    EXPECT_EQ(to_text("s", Id{.high = 0, .low = 32}), "s_00000000000000000000000010");
    // 64 bits are 12 characters and 4 bits of the 13th, which belongs to both halves.
    EXPECT_EQ(to_text("s", Id{.high = 1, .low = 0}), "s_0000000000000g000000000000");
}

TEST(Id, text_gives_back_every_id) {
    std::mt19937_64 random(2);
    for (int i = 0; i < 100'000; ++i) {
        const Id id{.high = random() >> (random() % 64), .low = random() >> (random() % 64)};
        const std::string text = to_text("hold", id);

        ASSERT_EQ(id_from_text("hold", text), id) << text;
    }
}

TEST(Id, text_with_another_prefix_is_refused) {
    const std::string text = to_text("run", time_ordered_id(morning, 3, 4));
    ASSERT_TRUE(id_from_text("run", text));

    EXPECT_FALSE(id_from_text("ses", text));
    EXPECT_FALSE(id_from_text("ru", text));
    EXPECT_FALSE(id_from_text("runs", text));
    EXPECT_FALSE(id_from_text("", text));
    EXPECT_FALSE(id_from_text("RUN", text));
    EXPECT_FALSE(id_from_text("run", "RUN" + text.substr(3)));
    EXPECT_FALSE(id_from_text("run", "run-" + text.substr(4)));
    EXPECT_FALSE(id_from_text("run", text.substr(4)));
}

TEST(Id, text_of_another_length_is_refused) {
    const std::string text = to_text("run", time_ordered_id(morning, 3, 4));
    for (std::size_t length = 0; length < text.size(); ++length) {
        EXPECT_FALSE(id_from_text("run", text.substr(0, length))) << length;
    }
    EXPECT_FALSE(id_from_text("run", text + "0"));
    EXPECT_FALSE(id_from_text("run", text + " "));
    EXPECT_FALSE(id_from_text("run", " " + text));
}

TEST(Id, a_first_character_past_7_would_need_more_than_128_bits_and_is_refused) {
    constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
    for (std::size_t value = 0; value < alphabet.size(); ++value) {
        const std::string text = std::string("run_") + alphabet[value] + std::string(25, '0');
        EXPECT_EQ(id_from_text("run", text).has_value(), value <= 7) << text;
    }
}

TEST(Id, a_character_outside_the_alphabet_is_refused_in_every_place) {
    constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
    const std::string good = to_text("run", Id{.high = 0x0123'4567'89AB'CDEF, .low = 0x0123'4567'89AB'CDEF});
    for (std::size_t place = 4; place < good.size(); ++place) {
        for (int byte = 0; byte < 256; ++byte) {
            const char c = static_cast<char>(byte);
            std::string text = good;
            text[place] = c;
            const bool in_alphabet = alphabet.find(c) != std::string_view::npos;
            const bool expected = in_alphabet && (place > 4 || (c >= '0' && c <= '7'));
            ASSERT_EQ(id_from_text("run", text).has_value(), expected) << "byte " << byte << " in place " << place;
        }
    }
}

TEST(Id, a_uuid_is_read_in_upper_and_lower_case) {
    const Id expected{.high = 0x0123'4567'89AB'CDEF, .low = 0xFEDC'BA98'7654'3210};

    EXPECT_EQ(id_from_uuid("01234567-89ab-cdef-fedc-ba9876543210"), expected);
    EXPECT_EQ(id_from_uuid("01234567-89AB-CDEF-FEDC-BA9876543210"), expected);
    EXPECT_EQ(id_from_uuid("00000000-0000-0000-0000-000000000000"), Id{});
}

TEST(Id, what_is_not_a_uuid_in_its_usual_spelling_is_refused) {
    using namespace std::string_view_literals;
    constexpr std::array refused = {
        ""sv,
        "0123456789abcdeffedcba9876543210"sv,
        "{01234567-89ab-cdef-fedc-ba9876543210}"sv,
        "urn:uuid:01234567-89ab-cdef-fedc-ba9876543210"sv,
        "01234567-89ab-cdef-fedc-ba987654321"sv,
        "01234567-89ab-cdef-fedc-ba98765432100"sv,
        "0123456-789ab-cdef-fedc-ba9876543210"sv,
        "01234567-89ab-cdef-fedcba-9876543210"sv,
        "01234567--9ab-cdef-fedc-ba9876543210"sv,
        "01234567 89ab cdef fedc ba9876543210"sv,
        "01234567-89ab-cdef-fedc-ba987654321g"sv,
        "01234567-89ab-cdef-fedc-ba987654321\0"sv,
        "+1234567-89ab-cdef-fedc-ba9876543210"sv,
    };
    for (const std::string_view text : refused) EXPECT_FALSE(id_from_uuid(text)) << text;
}

TEST(Id, hashes_of_neighbours_spread_over_the_low_bits) {
    // Tables take the low bits of a hash. Ids of one millisecond that are counted up must not meet there.
    std::unordered_set<std::size_t> low_bits;
    for (std::uint64_t i = 0; i < 1024; ++i) low_bits.insert(std::hash<Id>{}(time_ordered_id(morning, 0, i)) % 4096);
    for (std::uint64_t i = 0; i < 1024; ++i) low_bits.insert(std::hash<Id>{}(time_ordered_id(morning, i, 0)) % 4096);

    // 2048 balls into 4096 bins hit 1612 different ones by chance.
    EXPECT_GT(low_bits.size(), 1400u);
}

TEST(Id, ids_that_outsiders_choose_are_apart_from_all_others_and_from_each_others_spaces) {
    const Id ours = time_ordered_id(from_micros(1'790'000'000'000'000), 5, 7);
    for (const std::string& text : {to_text("key", ours), std::string("nightly-1"), std::string(""),
                                    std::string("01890a5d-ac96-774b-bcce-b302099a8057")}) {
        const Id chosen = chosen_id("a", "key", text);
        EXPECT_TRUE(is_chosen(chosen));
        EXPECT_EQ(chosen, chosen_id("a", "key", text));
        EXPECT_NE(chosen, chosen_id("b", "key", text));
        EXPECT_NE(chosen, chosen_id("a", "key", text + "x"));
    }
    EXPECT_FALSE(is_chosen(ours));
    EXPECT_FALSE(is_chosen(time_ordered_id(far_future, ~0ull, ~0ull)));
    EXPECT_FALSE(is_chosen(id_from_hash("x")));
    const Id ordered = chosen_id("a", "key", to_text("key", ours));
    EXPECT_TRUE(is_time_ordered(ordered));
    EXPECT_EQ(made_at(ordered), made_at(ours));
    EXPECT_NE(ordered.low | 0x4000'0000'0000'0000ull, ours.low | 0x4000'0000'0000'0000ull);
    EXPECT_FALSE(is_time_ordered(chosen_id("a", "key", "nightly-1")));
}

}  // namespace
}  // namespace interlock
