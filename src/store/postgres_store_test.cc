// What only the PostgreSQL store does: lanes, lost answers, journeys, migrations, servers that are refused.
#include "store/postgres_store.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "store/postgres_test_database.h"

namespace interlock::store {

std::string postgres_test_uri() {
    const char* uri = std::getenv("INTERLOCK_TEST_POSTGRES");
    return uri == nullptr ? "" : uri;
}

}  // namespace interlock::store
