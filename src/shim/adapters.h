// The programs that are known by name: which variables their own login needs, and what points them at another address
// for their models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace interlock::shim {

struct Adapter {
    std::string_view name;
    std::vector<std::string_view> programs;  // What the first word of a command may be, without its directory.
    std::vector<std::string_view> login;     // Variables of the caller that are handed on.
    std::string_view dialect;                // What it speaks to its models.
    // Towards a gateway, with {url} (without a slash at its end), {key}, and {home}, the run's own directory, in them.
    std::vector<std::string_view> gateway_env;  // "NAME=value"
    std::vector<std::string_view> gateway_arguments;
    // A file in {home}, for a program that is told by files only. Empty: none.
    std::string_view gateway_file_name;
    std::string_view gateway_file;
    std::string_view output_tokens;  // The variable that bounds how much output it asks for at a time; empty: none.
};

// The one of this name; where that is empty, the one whose program it is. Null: it is none that we know.
const Adapter* find_adapter(std::string_view name, std::string_view program);

struct Additions {
    std::vector<std::string> env;        // "NAME=value", on top of the rest.
    std::vector<std::string> arguments;  // Right behind the program, before its own.
};
Additions gateway_additions(const Adapter& adapter, std::string_view url, std::string_view key, std::string_view home);

}  // namespace interlock::shim
