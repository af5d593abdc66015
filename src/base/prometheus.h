// Prometheus' text format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace interlock {

// What comes before the samples of a metric.
void write_family(std::string& out, std::string_view name, std::string_view type, std::string_view help);

// A metric of one sample.
void write_metric(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                  std::uint64_t value);

// name="value". The value is UTF-8, and may have anything in it.
std::string label(std::string_view name, std::string_view value);

}  // namespace interlock
