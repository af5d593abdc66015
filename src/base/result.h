// A value, or the reason there is none. Every function whose failure a caller can act on returns one.
#pragma once

#include <tl/expected.hpp>
#include <utility>

namespace interlock {

template <class T, class E>
class [[nodiscard]] Result : public tl::expected<T, E> {
 public:
    using tl::expected<T, E>::expected;
};

template <class E>
auto fail(E error) {
    return tl::unexpected<E>(std::move(error));
}

}  // namespace interlock
