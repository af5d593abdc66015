#include "cli/yaml.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace interlock::cli {
namespace {

// "3:5 what" for each.
std::string mistakes_of(std::string_view text) {
    std::string all;
    for (const YamlMistake& one : parse_yaml(text).mistakes) {
        all += fmt::format("{}:{} {}\n", one.at.line, one.at.column, one.what);
    }
    return all;
}

Yaml only(std::string_view text) {
    YamlFile file = parse_yaml(text);
    EXPECT_TRUE(file.mistakes.empty()) << mistakes_of(text);
    EXPECT_EQ(file.documents.size(), 1u);
    return file.documents.empty() ? Yaml{} : file.documents[0];
}

TEST(YamlTest, everything_knows_where_it_stands) {
    const Yaml map = only("# agents\nname: coder\nwarn:\n  - 50\n  - 80\n");

    ASSERT_EQ(map.items.size(), 2u);
    EXPECT_EQ(map.items[0].name, "name");
    EXPECT_EQ(map.items[0].name_at, (Spot{2, 1}));
    EXPECT_EQ(map.items[0].text, "coder");
    EXPECT_EQ(map.items[0].at, (Spot{2, 7}));
    ASSERT_EQ(map.items[1].items.size(), 2u);
    EXPECT_EQ(map.items[1].items[1].text, "80");
    EXPECT_EQ(map.items[1].items[1].at, (Spot{5, 5}));
}

TEST(YamlTest, a_scalar_is_its_text_to_the_last_digit) {
    const Yaml map = only("a: 5.000000000000000000001\nb: 1e3\nc: 'true'\nd: true\ne: 0x10\nf: ~\ng:\n");

    EXPECT_EQ(map.items[0].text, "5.000000000000000000001");
    EXPECT_EQ(map.items[1].text, "1e3");
    EXPECT_TRUE(map.items[2].quoted);
    EXPECT_FALSE(map.items[3].quoted);
    EXPECT_EQ(map.items[4].text, "0x10");
    EXPECT_EQ(map.items[5].kind, Yaml::Kind::nothing);
    EXPECT_EQ(map.items[6].kind, Yaml::Kind::nothing);
}

TEST(YamlTest, a_name_that_stands_twice_is_a_mistake) {
    EXPECT_EQ(mistakes_of("name: a\ncommand: x\nname: b\n"),
              "3:1 'name' stands here twice; the first one is on line 1\n");
    EXPECT_EQ(mistakes_of("retry:\n  tries: 1\n  tries: 2\n"),
              "3:3 'tries' stands here twice; the first one is on line 2\n");
    EXPECT_EQ(mistakes_of("a: {name: 1}\nb: {name: 2}\n"), "");
}

TEST(YamlTest, anchors_stand_for_what_they_name_and_can_be_merged) {
    const Yaml map =
        only("common: &common\n  PATH: /bin\n  HOME: /root\none: *common\ntwo:\n  <<: *common\n  HOME: /me\n");

    EXPECT_EQ(map.items[1].items[0].text, "/bin");
    ASSERT_EQ(map.items[2].items.size(), 2u);
    EXPECT_EQ(map.items[2].items[0].text, "/me") << "what a map says itself wins";
    EXPECT_EQ(map.items[2].items[1].name, "PATH");
    EXPECT_EQ(mistakes_of("a: 1\nb:\n  <<: text\n"), "3:7 '<<' takes a map, or a list of maps\n");
}

TEST(YamlTest, aliases_that_multiply_without_end_are_refused) {
    std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 9; ++i) {
        text += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i,
                            i - 1);
    }
    const YamlFile file = parse_yaml(text);

    ASSERT_EQ(file.mistakes.size(), 1u);
    EXPECT_NE(file.mistakes[0].what.find("more than 100000 values"), std::string::npos) << file.mistakes[0].what;
    EXPECT_EQ(mistakes_of("a: &a [*a]\n"), "1:8 an alias inside of what it stands for\n");
}

TEST(YamlTest, what_is_no_yaml_says_where) {
    EXPECT_EQ(mistakes_of("name: coder\n command: x\n").substr(0, 4), "2:9 ");
    EXPECT_NE(mistakes_of("a: [1, 2\nb: 3\n").find("this is not YAML"), std::string::npos);
    EXPECT_NE(mistakes_of("a: *nobody\n").find("1:4 this is not YAML"), std::string::npos);
    EXPECT_EQ(mistakes_of("b: x\na: \"open\n"), "2:4 this is not YAML: a quote that does not end\n");
    EXPECT_EQ(mistakes_of("a: 'it''s \n"), "1:4 this is not YAML: a quote that does not end\n");
    EXPECT_EQ(mistakes_of("a: ['it''s', \"\\\"\", \"\\\\\", ü, \"ü\", 'x']\n"), "");
    EXPECT_NE(mistakes_of("? [a]\n: b\n").find("a name in a map has to be text"), std::string::npos);
    EXPECT_EQ(mistakes_of("a: !secret x\n"), "1:4 the tag '!secret' means nothing here; leave it out\n");
    EXPECT_EQ(mistakes_of(""), "");
}

TEST(YamlTest, a_comma_that_begins_a_document_is_a_mistake) {
    EXPECT_EQ(mistakes_of(",a: 1\n"), "1:1 this is not YAML: no value begins like this\n");
    EXPECT_EQ(mistakes_of("a: 1\n---\n, b\n"), "3:1 this is not YAML: no value begins like this\n");
    EXPECT_EQ(mistakes_of("---\n---\n"), "") << "documents may be empty";
}

TEST(YamlTest, nesting_without_end_is_refused) {
    EXPECT_NE(mistakes_of(std::string(5000, '[')), "");
    EXPECT_NE(mistakes_of(std::string(5000, '{')), "");
}

TEST(YamlTest, a_file_has_many_documents) {
    EXPECT_EQ(parse_yaml("name: a\n---\nname: b\n---\n").documents.size(), 3u);
}

}  // namespace
}  // namespace interlock::cli
