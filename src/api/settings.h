// What the resources have in common that are settings: documents that are checked elsewhere and stored here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {

// The document as it is stored.
net::Task<Result<std::string, Problem>> checked(Call& call, std::string_view kind, std::string name,
                                                std::string document);

// A large body is no setting. It is refused by its size, before its text is written out.
std::optional<Problem> too_large_for_setting(const Call& call);

// Sets or drops, and has it gone by.
net::Task<Result<DoneCommand, Problem>> change_setting(Call& call, core::CommandBody body,
                                                       std::optional<std::string> key_in_body);

net::Task<Result<DoneCommand, Problem>> put_setting(Call& call, std::string_view kind, std::string name,
                                                    std::string document, std::optional<std::string> key_in_body = {});

// A JSON object; that it answers a repeat is said in it, as everywhere.
net::Response respond_object(std::string object, bool repeated);

// Nothing for one that is not set, or not any more.
net::Task<Result<std::optional<core::Setting>, Problem>> find_setting(Call& call, std::string_view kind,
                                                                      std::string name);

}  // namespace interlock::api
