#include "engine/id_source.h"

#include <random>

namespace interlock::engine {

IdSource::IdSource() {
    std::random_device device;
    seed_ = (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace interlock::engine
