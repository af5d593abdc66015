#include "gateway/price_catalog.h"

#include <gtest/gtest.h>

#include <chrono>

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

const std::string head = "catalog\t1.0\t2026-11-01\nprovider\tp\talso-p\tq\nprovider\tq\t\t\n";

PriceCatalog catalog_of(const std::string& lines) {
    auto parsed = PriceCatalog::parse(head + lines);
    EXPECT_TRUE(parsed.has_value()) << parsed.error();
    return parsed ? std::move(*parsed) : PriceCatalog();
}

std::string found(const PriceCatalog& catalog, std::string_view provider, std::string_view model) {
    const PriceCatalog::Row* row = catalog.find(provider, model);
    return row == nullptr ? "nothing" : row->provider + " " + row->model;
}

TEST(PriceCatalog, rules_tell_names_apart) {
    const PriceCatalog catalog = catalog_of(
        "p\tOwn\t.\t0/0\tin=1 out=1\n"
        "p\twhole\t=a =B\t0/0\tin=1 out=1\n"
        "p\tnot-spoken\t<say&!>-tts&!*-tts-\t0/0\tin=1 out=1\n"
        "p\tbegins\t<be-\t0/0\tin=1 out=1\n"
        "p\tends\t>-en\t0/0\tin=1 out=1\n"
        "p\tpart\t*mid*\t0/0\tin=1 out=1\n"
        "p\tdated\t#d-####\t0/0\tin=1 out=1\n"
        "p\tdated-and-more\t%e-##\t0/0\tin=1 out=1\n");

    EXPECT_EQ(found(catalog, "p", "own"), "p Own");
    EXPECT_EQ(found(catalog, "also-p", "own"), "p Own");
    EXPECT_EQ(found(catalog, "p", "a"), "p whole");
    EXPECT_EQ(found(catalog, "p", "b"), "p whole");
    EXPECT_EQ(found(catalog, "p", "ab"), "nothing");
    EXPECT_EQ(found(catalog, "p", "say-it"), "p not-spoken");
    EXPECT_EQ(found(catalog, "p", "say-tts"), "nothing");
    EXPECT_EQ(found(catalog, "p", "say-tts-1"), "nothing");
    EXPECT_EQ(found(catalog, "p", "be-all"), "p begins");
    EXPECT_EQ(found(catalog, "p", "xbe-all"), "nothing");
    EXPECT_EQ(found(catalog, "p", "x-en"), "p ends");
    EXPECT_EQ(found(catalog, "p", "x-end"), "nothing");
    EXPECT_EQ(found(catalog, "p", "xmid*x"), "p part");
    EXPECT_EQ(found(catalog, "p", "d-1234"), "p dated");
    EXPECT_EQ(found(catalog, "p", "d-123"), "nothing");
    EXPECT_EQ(found(catalog, "p", "d-123a"), "nothing");
    EXPECT_EQ(found(catalog, "p", "d-12345"), "nothing");
    EXPECT_EQ(found(catalog, "p", "e-12-beta"), "p dated-and-more");
    EXPECT_EQ(found(catalog, "p", "e-1"), "nothing");
}

TEST(PriceCatalog, the_first_that_fits_is_the_one_and_one_without_a_price_hides_the_rest) {
    const PriceCatalog catalog = catalog_of(
        "p\tfirst\t<m-1\t0/0\tin=1 out=1\n"
        "p\tunpriced\t<m-2\t0/0\tnone\n"
        "p\tsecond\t<m- =same\t0/0\tin=1 out=1\n"
        "p\tthird\t=same\t0/0\tin=1 out=1\n"
        "q\telsewhere\t<n-\t0/0\tin=1 out=1\n");

    EXPECT_EQ(found(catalog, "p", "m-12"), "p first");
    EXPECT_EQ(found(catalog, "p", "m-22"), "p unpriced");
    EXPECT_EQ(catalog.find("p", "m-22")->at(far_future), nullptr);
    EXPECT_EQ(found(catalog, "p", "m-3"), "p second");
    EXPECT_EQ(found(catalog, "p", "same"), "p second");
    EXPECT_EQ(found(catalog, "p", "n-1"), "q elsewhere");
    EXPECT_EQ(found(catalog, "q", "m-1"), "nothing");
}

TEST(PriceCatalog, dates_in_names_are_found_with_and_without_dashes) {
    const PriceCatalog catalog = catalog_of("p\tm\t#m-####-##-## #m-####-##-##-v1\t0/0\tin=1 out=1\n");

    EXPECT_EQ(found(catalog, "p", "m-2026-09-01"), "p m");
    EXPECT_EQ(found(catalog, "p", "m-20260901"), "p m");
    EXPECT_EQ(found(catalog, "p", "m-20260901-v1"), "p m");
    EXPECT_EQ(found(catalog, "p", "m-202609012"), "nothing");
    EXPECT_EQ(found(catalog, "p", "m-19990901"), "nothing");
}

TEST(PriceCatalog, the_last_price_whose_time_has_come_holds) {
    const PriceCatalog catalog =
        catalog_of("p\tm\t.\t0/0\tin=1 out=1\tfrom=2026-11-10 in=2 out=1\tdaily=22:30-01:00 in=3 out=1\n");
    const PriceCatalog::Row* row = catalog.find("p", "m");
    ASSERT_NE(row, nullptr);
    const auto input = [&](Instant at) { return row->at(at)->tiers.front().rates.input / 1'000'000; };
    const Instant day = std::chrono::sys_days(std::chrono::year(2026) / 11 / 10);

    EXPECT_EQ(input(day - 12h), 1);
    EXPECT_EQ(input(day), 3);
    EXPECT_EQ(input(day + 1h - 1us), 3);
    EXPECT_EQ(input(day + 1h), 2);
    EXPECT_EQ(input(day + 22h + 30min - 1us), 2);
    EXPECT_EQ(input(day + 22h + 30min), 3);
    EXPECT_EQ(row->at(day)->id(), "p/m@1.0#3");
    EXPECT_EQ(row->at(day - 12h)->id(), "p/m@1.0");
}

TEST(PriceCatalog, tiers_and_variants_are_read) {
    const PriceCatalog catalog = catalog_of(
        "p\tm\t.\t200/100\tin=1 out=2 read=3 write=4 write1h=5 reason=6 audio_in=7 audio_out=8 call=9 tool=10 "
        "tier=50 in=0.5 out=0.000001 variant=flex in=0 out=0 tier=60 in=1 out=1\n");

    constexpr std::int64_t dollar = 1'000'000'000'000;
    const ModelPrice* price = catalog.find("p", "m")->at(far_future);
    const Rates base{.input = 1'000'000,
                     .output = 2'000'000,
                     .cache_read = 3'000'000,
                     .cache_write_5m = 4'000'000,
                     .cache_write_1h = 5'000'000,
                     .reasoning = 6'000'000,
                     .audio_input = 7'000'000,
                     .audio_output = 8'000'000,
                     .per_call = 9 * dollar,
                     .per_paid_tool = 10 * dollar};
    EXPECT_EQ(*price, (ModelPrice{.provider = "p",
                                  .model = "m",
                                  .version = "1.0",
                                  .tiers = {{0, base}, {50, {.input = 500'000, .output = 1}}},
                                  .variants = {{"flex", {{0, {}}, {60, {.input = 1'000'000, .output = 1'000'000}}}}},
                                  .input_max = 200,
                                  .output_max = 100}));
}

TEST(PriceCatalog, what_cannot_be_read_is_refused_with_its_line) {
    const auto error = [](const std::string& text) {
        const auto parsed = PriceCatalog::parse(text);
        return parsed ? std::string("read") : parsed.error();
    };
    const auto line = [&](const std::string& text) {
        const std::string whole = error(head + text + "\n");
        return whole.starts_with("line 4: ") ? whole.substr(8) : whole;
    };

    EXPECT_EQ(error("# nothing\n"), "no model in it");
    EXPECT_EQ(error("p\tm\t.\t0/0\tin=1 out=1\n"),
              "line 1: a line that begins with 'catalog' and its version comes first");
    EXPECT_EQ(error("catalog\t1\tyesterday\n"),
              "line 1: 'catalog' is followed by a version and a day such as 2026-11-01");
    EXPECT_EQ(error("catalog\t1\t2026-02-30\n"),
              "line 1: 'catalog' is followed by a version and a day such as 2026-11-01");
    EXPECT_EQ(error("catalog\t1\t2026-02-03\nprovider\tp\t\tx\np\tm\t.\t0/0\tin=1 out=1\n"),
              "p falls back to x, which is no provider");
    EXPECT_EQ(error(std::string(catalog_bytes_max + 1, '#')), "longer than 8388608 bytes");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1"), "read");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1\r"), "read");
    EXPECT_EQ(line("catalog\t1.0\t2026-11-01"), "a second version");
    EXPECT_EQ(line("provider\tp\t\t"), "the provider p for the second time");
    EXPECT_EQ(line("provider\tr"), "'provider' has an id, aliases and fallbacks");
    EXPECT_EQ(line("r\tm\t.\t0/0\tin=1 out=1"), "no provider r before this");
    EXPECT_EQ(line("p\tm\t.\t0/0"), "a model has a provider, a name, a rule, limits and prices");
    EXPECT_EQ(line("p\t\t.\t0/0\tnone"), "a model without a name");
    EXPECT_EQ(line("p\tm\t.\t100\tnone"),
              "limits are written 200000/64000, or 200000/64000/1600 with the tokens of an image");
    EXPECT_EQ(line("p\tm\t.\t-1/0\tnone"),
              "limits are written 200000/64000, or 200000/64000/1600 with the tokens of an image");
    EXPECT_EQ(line("p\tm\t.\t0/0\tnone\tin=1 out=1"), "'none' stands alone");
    EXPECT_EQ(line("p\tm\t?x\t0/0\tnone"), "not a rule for names: ?x");
    EXPECT_EQ(line("p\tm\t=\t0/0\tnone"), "not a rule for names: =");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1"), "a price has 'in' and 'out'");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 in=1"), "a price has 'in' and 'out'");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1 tier=5"), "a price has 'in' and 'out'");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 tier=5 in=1 out=1"), "a tier here: 5");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1 tier=5 in=1 out=1 tier=5 in=1 out=1"), "a tier here: 5");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1 variant=A in=1 out=1"), "a variant here: A");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1 variant=a in=1 out=1 variant=a in=1 out=1"),
              "the variant a for the second time");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1 free"), "not a price: free");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=1 out=1 gold=1"), "not a kind of price: gold");
    EXPECT_EQ(line("p\tm\t.\t0/0\tin=0.0000001 out=1"), "not an amount of dollars: 0.0000001");
    EXPECT_EQ(line("p\tm\t.\t0/0\tfrom=2026-13-01 in=1 out=1"), "not a day: 2026-13-01");
    EXPECT_EQ(line("p\tm\t.\t0/0\tdaily=24:00-01:00 in=1 out=1"), "not times: 24:00-01:00");
    EXPECT_EQ(line("p\tm\t.\t0/0\tdaily=01:00-01:00 in=1 out=1"), "not times: 01:00-01:00");
}

}  // namespace
}  // namespace interlock::gateway
