// Hashed containers whose keys are texts. Names, labels and keys of commands come from clients.
//
//   (1) The hash has a secret key (base/keyed_hash.h), so that no client can choose texts that collide.
//   (2) Their order differs from process to process: no rule may depend on it.
//   (3) A string_view is looked up without a copy.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/keyed_hash.h"

namespace interlock {

template <class T>
using ByText = std::unordered_map<std::string, T, KeyedTextHash, std::equal_to<>>;

using TextSet = std::unordered_set<std::string, KeyedTextHash, std::equal_to<>>;

}  // namespace interlock
