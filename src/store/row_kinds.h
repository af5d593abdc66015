// Walking over the kinds of rows.
#pragma once

#include <boost/mp11/algorithm.hpp>

namespace interlock::store {

// Calls `visit` with a tag of each kind of row in the list, in the order in which they are written.
template <class List, class Visit>
void for_each_kind(Visit visit) {
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, List>>(visit);
}

}  // namespace interlock::store
