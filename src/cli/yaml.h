// The YAML of `interlock apply`: text, lists and maps, each with its line and column.
//
//   (1) A scalar is its text. It is never parsed as a number, so an amount keeps all its digits.
//   (2) A name that occurs twice in a map is a mistake.
//   (3) Aliases that would multiply the size of a file are refused.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace interlock::cli {

// Lines and columns count from 1.
struct Spot {
    int line = 1;
    int column = 1;
    friend auto operator<=>(const Spot&, const Spot&) = default;
};

struct Yaml {
    enum class Kind { nothing, text, list, map };
    Kind kind = Kind::nothing;
    Spot at = {};
    std::string text = {};
    bool quoted = false;           // Always text, even if it looks like a number.
    std::vector<Yaml> items = {};  // Of a list or a map.
    std::string name = {};         // Of an item of a map, …
    Spot name_at = {};             // … and where that stands.
};

struct YamlMistake {
    Spot at;
    std::string what;
};

struct YamlFile {
    std::vector<Yaml> documents;
    std::vector<YamlMistake> mistakes;  // With any of these, the documents are not all there.
};

YamlFile parse_yaml(std::string_view text);

}  // namespace interlock::cli
