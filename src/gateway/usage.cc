#include "gateway/usage.h"

#include "gateway/dialect.h"
#include "gateway/usage_reader.h"

namespace interlock::gateway {

Metered read_usage(const ModelRoute& route, std::string_view body, KeepText keep) {
    const auto reader = route.dialect().usage_reader(route.operation, keep);
    reader->whole(body);
    return std::move(reader->metered());
}

}  // namespace interlock::gateway
