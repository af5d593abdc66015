#include "cli/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

namespace interlock::cli {
namespace {

constexpr std::size_t nodes_max = 100'000;

Spot spot_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

std::size_t size_of(const Yaml& node) {
    std::size_t size = 1;
    for (const Yaml& item : node.items) size += size_of(item);
    return size;
}

const Yaml* find(const Yaml& map, std::string_view name) {
    const auto found = std::ranges::find(map.items, name, &Yaml::name);
    return found == map.items.end() ? nullptr : &*found;
}

// Builds the documents out of what the parser comes across.
class Builder : public YAML::EventHandler {
 public:
    explicit Builder(std::string_view text) : text_(text) {}

    YamlFile file;

    void OnDocumentStart(const YAML::Mark& mark) override {
        // The parser does not move past a token that begins no value, and would give empty documents without end.
        if (mark.pos == document_begin_) throw YAML::ParserException(mark, "no value begins like this");
        document_begin_ = mark.pos;
        open_.clear();
        anchors_.clear();
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add({.at = spot_of(mark)}, anchor); }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        const auto found = anchors_.find(anchor);
        if (found == anchors_.end()) {
            mistake(spot_of(mark), "an alias inside of what it stands for");
            return add({.at = spot_of(mark)}, 0);
        }
        nodes_ += size_of(found->second);
        if (nodes_ <= nodes_max) return add(found->second, 0);
        if (!std::exchange(too_large_, true)) {
            mistake(spot_of(mark), fmt::format("the aliases make more than {} values of this file", nodes_max));
        }
        add({.at = spot_of(mark)}, 0);
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check_tag(mark, tag);
        check_quote(mark);
        add({.kind = Yaml::Kind::text, .at = spot_of(mark), .text = value, .quoted = tag != "?" && !tag.empty()},
            anchor);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        open_.push_back({.node = {.kind = Yaml::Kind::list, .at = spot_of(mark)}, .anchor = anchor});
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        open_.push_back({.node = {.kind = Yaml::Kind::map, .at = spot_of(mark)}, .anchor = anchor});
    }
    void OnMapEnd() override {
        merge(open_.back().node);
        close();
    }

    void mistake(Spot at, std::string what) { file.mistakes.push_back({at, std::move(what)}); }

 private:
    // A list or a map that has begun. A map's key waits here for its value.
    struct Open {
        Yaml node;
        YAML::anchor_t anchor = 0;
        std::optional<Yaml> key = {};
    };

    void check_tag(const YAML::Mark& mark, const std::string& tag) {
        if (tag.empty() || tag == "?" || tag == "!" || tag == "tag:yaml.org,2002:str") return;
        mistake(spot_of(mark), fmt::format("the tag '{}' means nothing here; leave it out", tag));
    }

    // The parser takes the end of the file for the end of a quoted text.
    void check_quote(const YAML::Mark& mark) {
        const auto begin = static_cast<std::size_t>(mark.pos);
        if (begin >= text_.size() || (text_[begin] != '"' && text_[begin] != '\'')) return;
        const char quote = text_[begin];
        for (std::size_t i = begin + 1; i < text_.size(); ++i) {
            if (text_[i] == quote && quote == '\'' && text_.substr(i + 1).starts_with(quote)) {
                ++i;  // Twice: it is itself.
            } else if (text_[i] == quote) {
                return;
            } else if (text_[i] == '\\' && quote == '"') {
                ++i;
            }
        }
        mistake(spot_of(mark), "this is not YAML: a quote that does not end");
    }

    void close() {
        Open ended = std::move(open_.back());
        open_.pop_back();
        add(std::move(ended.node), ended.anchor);
    }

    void add(Yaml node, YAML::anchor_t anchor) {
        ++nodes_;
        if (anchor != 0) anchors_[anchor] = node;
        if (open_.empty()) {
            file.documents.push_back(std::move(node));
            return;
        }
        Open& into = open_.back();
        if (into.node.kind == Yaml::Kind::map && !into.key) return add_key(into, std::move(node));
        if (into.key) {
            node.name = std::move(into.key->text);
            node.name_at = into.key->at;
            into.key.reset();
        }
        into.node.items.push_back(std::move(node));
    }

    void add_key(Open& into, Yaml key) {
        if (key.kind != Yaml::Kind::text) mistake(key.at, "a name in a map has to be text");
        if (const Yaml* before = find(into.node, key.text); before != nullptr && key.text != "<<") {
            mistake(key.at,
                    fmt::format("'{}' stands here twice; the first one is on line {}", key.text, before->name_at.line));
        }
        into.key = std::move(key);
    }

    // "<<: *common" brings in what the map does not say itself.
    void merge(Yaml& map) {
        std::vector<Yaml> sources;
        for (const Yaml& item : map.items) {
            if (item.name != "<<") continue;
            if (item.kind == Yaml::Kind::list) {
                sources.insert(sources.end(), item.items.begin(), item.items.end());
            } else {
                sources.push_back(item);
            }
        }
        std::erase_if(map.items, [](const Yaml& item) { return item.name == "<<"; });
        for (const Yaml& source : sources) {
            if (source.kind != Yaml::Kind::map) {
                mistake(source.at, "'<<' takes a map, or a list of maps");
                continue;
            }
            for (const Yaml& item : source.items) {
                if (find(map, item.name) == nullptr) map.items.push_back(item);
            }
        }
    }

    std::string_view text_;
    int document_begin_ = -1;
    std::vector<Open> open_;
    std::map<YAML::anchor_t, Yaml> anchors_;
    std::size_t nodes_ = 0;
    bool too_large_ = false;
};

}  // namespace

YamlFile parse_yaml(std::string_view text) {
    Builder builder(text);
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        while (parser.HandleNextDocument(builder)) continue;
    } catch (const YAML::Exception& error) {
        builder.mistake(error.mark.is_null() ? Spot{} : spot_of(error.mark), "this is not YAML: " + error.msg);
    }
    return std::move(builder.file);
}

}  // namespace interlock::cli
