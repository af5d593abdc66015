// Reads one file of `interlock apply`: turns YAML values into the values of a request body.
//
//   (1) A mistake is noted with its place, and reading continues with another value.
//   (2) An amount stays text, from the file to the server.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/apply_files.h"
#include "cli/yaml.h"

namespace interlock::cli {

// `what` names the value in the mistakes about it.
class ApplySource {
 public:
    using Names = std::vector<std::string>;

    ApplySource(std::string file, std::string directory, std::string home, std::vector<Mistake>& mistakes)
        : file_(std::move(file)), directory_(std::move(directory)), home_(std::move(home)), mistakes_(mistakes) {}

    void mistake(Spot at, std::string what, std::string hint = {});
    const std::string& file() const { return file_; }

    // The member of this name; nullptr if it is missing or empty.
    static const Yaml* member(const Yaml& map, std::string_view name);
    // The same for a renamed member. Notes a mistake if both names are there with different values.
    const Yaml* member(const Yaml& map, std::string_view name, std::string_view old_name);

    // True for a map that has only these members. Notes what else it has.
    bool check_map(const Yaml& node, std::string_view what, const Names& known);

    std::string text(const Yaml& node, std::string_view what);
    bool boolean(const Yaml& node, std::string_view what);
    std::int64_t number(const Yaml& node, std::string_view what, std::int64_t min, std::int64_t max);
    std::int64_t seconds(const Yaml& node, std::string_view what, std::int64_t min = 0);
    std::string choice(const Yaml& node, std::string_view what, const Names& choices);
    // In the server's format, so that equal amounts are equal texts.
    std::string dollars(const Yaml& node, std::string_view what);
    // Absolute: from the directory that is applied, or from home.
    std::string path(const Yaml& node, std::string_view what);
    std::string zone(const Yaml& node);
    std::string cron(const Yaml& node);
    std::string name(const Yaml& node, std::string_view what);
    void check_name(Spot at, std::string_view name, std::string_view what);
    boost::json::array texts(const Yaml& node, std::string_view what);
    boost::json::object pairs(const Yaml& node, std::string_view what);
    boost::json::object counts(const Yaml& node, std::string_view what, std::int64_t max);

 private:
    std::string file_;
    std::string directory_;
    std::string home_;
    std::vector<Mistake>& mistakes_;
};

}  // namespace interlock::cli
