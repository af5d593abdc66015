// From what a request calls a workplace to the places the rules know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/call.h"

namespace interlock::api {

struct PlaceView {
    core::ClaimKind kind = core::ClaimKind::workspace;
    std::string path;
    core::ClaimMode mode = core::ClaimMode::write;
};
BOOST_DESCRIBE_STRUCT(PlaceView, (), (kind, path, mode))

// The workspace (empty: none) and the named resources. Looks at the file system, on a worker.
net::Task<Result<std::vector<core::Place>, Problem>> find_places(Call& call, std::string workspace,
                                                                 std::vector<std::string> resources,
                                                                 core::ClaimMode mode);

// A program that sees other files than the server must not name directories: the same path can be another one there.
net::Task<std::optional<Problem>> check_view(Call& call, std::string path, std::string pointer);

std::vector<core::Place> named_resources(const std::vector<std::string>& names, core::ClaimMode mode);

std::vector<PlaceView> views_of(const std::vector<core::Place>& places);

}  // namespace interlock::api
