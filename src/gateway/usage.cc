#include "gateway/usage.h"

#include "gateway/usage_reader.h"

namespace interlock::gateway {

Metered read_usage(Operation operation, std::string_view body, KeepText keep) {
    UsageReader reader(operation, keep);
    reader.whole(body);
    return std::move(reader.metered());
}

}  // namespace interlock::gateway
