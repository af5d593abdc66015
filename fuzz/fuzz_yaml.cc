// A file of `interlock apply`: what is read without a mistake is the same when it is written out plainly, and every
// mistake and every row has a place in the file.
#include <stdlib.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/ensure.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "cli/apply_files.h"
#include "cli/yaml.h"

namespace {

using namespace interlock;
using namespace interlock::cli;

constexpr int depth_max = 50;  // yaml-cpp has a limit of its own, which is not reached here.

int lines_of(std::string_view text) { return 1 + static_cast<int>(std::ranges::count(text, '\n')); }

bool is_in(std::string_view text, Spot at) { return at.line >= 1 && at.column >= 1 && at.line <= lines_of(text) + 1; }

int depth_of(const Yaml& node) {
    int depth = 0;
    for (const Yaml& item : node.items) depth = std::max(depth, depth_of(item));
    return depth + 1;
}

std::string double_quoted(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out.append("\\").push_back(c);
        } else if (byte < 0x20 || byte == 0x7F) {
            out.append("\\x").push_back(digits[byte >> 4]);
            out.push_back(digits[byte & 15]);
        } else {
            out.push_back(c);
        }
    }
    return out + '"';
}

std::string written(const Yaml& node) {
    switch (node.kind) {
        case Yaml::Kind::nothing:
            return "~";
        case Yaml::Kind::text:
            return double_quoted(node.text);
        case Yaml::Kind::list:
        case Yaml::Kind::map:
            break;
    }
    const bool is_map = node.kind == Yaml::Kind::map;
    std::string out(is_map ? "{" : "[");
    for (const Yaml& item : node.items) {
        if (out.size() > 1) out += ", ";
        if (is_map) out += "? " + double_quoted(item.name) + " : ";
        out += written(item);
    }
    return out + (is_map ? "}" : "]");
}

bool is_same(const Yaml& left, const Yaml& right) {
    return left.kind == right.kind && left.text == right.text && left.name == right.name &&
           std::ranges::equal(left.items, right.items, is_same);
}

void check_places(std::string_view text, const Yaml& node) {
    ensure(is_in(text, node.at), "a value has its place in the file");
    for (const Yaml& item : node.items) check_places(text, item);
}

void check_tree(std::string_view text) {
    const YamlFile file = parse_yaml(text);
    for (const YamlMistake& mistake : file.mistakes) {
        ensure(is_in(text, mistake.at) && !mistake.what.empty(), "a mistake has a place and a reason");
    }
    for (const Yaml& document : file.documents) check_places(text, document);
    if (!file.mistakes.empty()) return;

    std::string again;
    for (const Yaml& document : file.documents) {
        if (depth_of(document) > depth_max) return;
        again += "--- " + written(document) + "\n";
    }
    const YamlFile reread = parse_yaml(again);
    ensure(reread.mistakes.empty(), "written out, there is no mistake");
    ensure(std::ranges::equal(file.documents, reread.documents, is_same), "written out, it is the same");
}

// A directory with one file, which is removed at the end of the process.
class Directory {
 public:
    Directory() {
        std::string name = (std::filesystem::temp_directory_path() / "interlock-fuzz-XXXXXX").string();
        ensure(mkdtemp(name.data()) != nullptr, "there is a directory to write to");
        path_ = name;
    }
    ~Directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string path() const { return path_.string(); }
    void write(const char* name, std::string_view text) const { std::ofstream(path_ / name) << text; }

 private:
    std::filesystem::path path_;
};

void check_rows(std::string_view text, const ApplyFiles& files) {
    for (const auto& mistake : files.mistakes) {
        ensure(!mistake.file.empty() && !mistake.what.empty() && is_in(text, mistake.at),
               "a mistake has a file, a place and a reason");
    }
    for (const auto& row : files.wanted) {
        ensure(!row.file.empty() && is_in(text, row.at), "a row has a file and a place");
        const auto flaw = flaw_of_json_object(boost::json::serialize(row.body));
        if (!files.mistakes.empty()) continue;
        ensure(!row.name.empty(), "a row has a name");
        ensure(!flaw.has_value(), "a row is a request body");
        for (const auto& member : defaults_of(row.kind)) {
            ensure(row.body.contains(member.key()), "a row has all members that have a default");
        }
    }
}

void check_files(std::string_view text) {
    static const Directory directory;
    directory.write("agent.yaml", text);
    directory.write("interlock.yaml", text.starts_with("caps") || text.starts_with("name") ? text : "name: shop\n");
    const ApplyFiles files = read_apply_files(directory.path(), "/h");
    check_rows(text, files);
    const ApplyFiles again = read_apply_files(directory.path(), "/h");
    ensure(files.set == again.set && files.wanted.size() == again.wanted.size() &&
               files.mistakes.size() == again.mistakes.size(),
           "read again, it is the same");
    if (!is_utf8(text)) ensure(!files.mistakes.empty(), "text that is not UTF-8 is a mistake");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_files(text);
    if (is_utf8(text)) check_tree(text);
    return 0;
}
