// YAML as the files of `interlock apply` use it: text, lists and maps, each knowing where it stands.
//
//   (1) A scalar is its text: nothing is ever read as a number here, so no digit of an amount is lost.
//   (2) A name that stands twice in a map is a mistake, not a matter of which one wins.
//   (3) A file takes no more room than it has text for: aliases that multiply it are refused.
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
    bool quoted = false;           // Text, whatever it looks like.
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
