#include "store/postgres_schema.h"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "store/postgres_columns.h"

// The text is taken into the binary as it stands, so that there is one copy of it and no file to lose.
#define INTERLOCK_SCHEMA(number, file)                      \
    __asm__(                                                \
        ".pushsection .rodata\n"                            \
        ".global interlock_schema_postgres_" number         \
        "_begin\n"                                          \
        ".global interlock_schema_postgres_" number         \
        "_end\n"                                            \
        "interlock_schema_postgres_" number                 \
        "_begin:\n"                                         \
        ".incbin \"" INTERLOCK_SCHEMA_DIR "/postgres/" file \
        "\"\n"                                              \
        "interlock_schema_postgres_" number                 \
        "_end:\n"                                           \
        ".popsection\n")
INTERLOCK_SCHEMA("001", "001_init.sql");
INTERLOCK_SCHEMA("002", "002_supervised_runs.sql");
INTERLOCK_SCHEMA("003", "003_gateway.sql");
INTERLOCK_SCHEMA("004", "004_history.sql");
INTERLOCK_SCHEMA("005", "005_lighter_writes.sql");
INTERLOCK_SCHEMA("006", "006_border.sql");
INTERLOCK_SCHEMA("007", "007_shares.sql");
INTERLOCK_SCHEMA("008", "008_children.sql");
INTERLOCK_SCHEMA("009", "009_never_waits.sql");
extern "C" const char interlock_schema_postgres_001_begin[], interlock_schema_postgres_001_end[];
extern "C" const char interlock_schema_postgres_002_begin[], interlock_schema_postgres_002_end[];
extern "C" const char interlock_schema_postgres_003_begin[], interlock_schema_postgres_003_end[];
extern "C" const char interlock_schema_postgres_004_begin[], interlock_schema_postgres_004_end[];
extern "C" const char interlock_schema_postgres_005_begin[], interlock_schema_postgres_005_end[];
extern "C" const char interlock_schema_postgres_006_begin[], interlock_schema_postgres_006_end[];
extern "C" const char interlock_schema_postgres_007_begin[], interlock_schema_postgres_007_end[];
extern "C" const char interlock_schema_postgres_008_begin[], interlock_schema_postgres_008_end[];
extern "C" const char interlock_schema_postgres_009_begin[], interlock_schema_postgres_009_end[];

namespace interlock::store {

const std::vector<PostgresMigration>& postgres_migrations() {
    static const std::vector<PostgresMigration> all{
        {"001_init", {interlock_schema_postgres_001_begin, interlock_schema_postgres_001_end}, 1},
        {"002_supervised_runs", {interlock_schema_postgres_002_begin, interlock_schema_postgres_002_end}, 2},
        {"003_gateway", {interlock_schema_postgres_003_begin, interlock_schema_postgres_003_end}, 3},
        {"004_history", {interlock_schema_postgres_004_begin, interlock_schema_postgres_004_end}, 4},
        {"005_lighter_writes", {interlock_schema_postgres_005_begin, interlock_schema_postgres_005_end}, 5},
        {"006_border", {interlock_schema_postgres_006_begin, interlock_schema_postgres_006_end}, 6},
        {"007_shares", {interlock_schema_postgres_007_begin, interlock_schema_postgres_007_end}, 7},
        {"008_children", {interlock_schema_postgres_008_begin, interlock_schema_postgres_008_end}, 8},
        {"009_never_waits", {interlock_schema_postgres_009_begin, interlock_schema_postgres_009_end}, 9},
    };
    return all;
}

namespace {

using enum OpenError::Kind;

constexpr std::int64_t migration_lock = 0x496e746c;  // "Intl"; any number that others are not likely to take.

struct Version {
    std::int64_t version = 0;  // 0: nothing is there.
    std::int64_t least = 0;
};

OpenError open_error(const PostgresError& error) { return {unavailable, "PostgreSQL: " + error.detail}; }
OpenError not_our_tables(std::string_view what) {
    return {not_ours, fmt::format("the database has {}; name an empty database, or one of interlock's", what)};
}

std::optional<std::int64_t> number(const PGresult& result, int column) {
    Value value;
    if (PQntuples(&result) == 0 || !read_value(result, 0, column, value)) return std::nullopt;
    const auto* found = std::get_if<std::int64_t>(&value);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

// Whose database it is, without changing it.
Result<Version, OpenError> read_version(PostgresConnection& connection, const PostgresOptions& options) {
    static const PostgresStatement what_is_there{
        "select current_schema() is null, "
        "to_regclass(quote_ident(current_schema()) || '.schema_migrations') is not null, "
        "(select count(*) from pg_class where relnamespace = to_regnamespace(quote_ident(current_schema())) "
        "and relkind in ('r', 'p', 'v', 'm'))"};
    static const PostgresStatement newest{
        "select version::bigint, least::bigint from schema_migrations order by version desc limit 1"};
    const auto there = connection.exchange({{&what_is_there}}, options.exchange_timeout);
    if (!there) return fail(open_error(there.error()));
    const PGresult& facts = *there->front();
    if (number(facts, 0) == 1) {
        return fail(OpenError{unavailable,
                              "the user has no schema in the database to make tables in; look at its "
                              "search_path and its rights"});
    }
    if (number(facts, 1) == 0) {
        if (number(facts, 2) == 0) return Version{};
        return fail(not_our_tables("tables of another program"));
    }
    const auto found = connection.exchange({{&newest}}, options.exchange_timeout);
    if (!found && !found.error().refused) return fail(open_error(found.error()));
    if (!found) return fail(not_our_tables("a table schema_migrations of another program"));
    const auto version = number(*found->front(), 0);
    const auto least = number(*found->front(), 1);
    if (!version || !least) return fail(not_our_tables("a table schema_migrations that says nothing"));
    return Version{*version, *least};
}

Result<bool, OpenError> is_ready(const Version& found) {
    const auto ours = static_cast<std::int64_t>(postgres_migrations().size());
    if (found.version < ours) return false;
    if (found.least <= ours) return true;
    return fail(OpenError{too_new, fmt::format("the database is of a later version (schema {}, which needs {}; this "
                                               "program knows {}); upgrade interlock",
                                               found.version, found.least, ours)});
}

}  // namespace

Result<void, OpenError> migrate(PostgresConnection& connection, const PostgresOptions& options) {
    // 1. Look. Normally there is nothing to do.
    auto found = read_version(connection, options);
    if (!found) return fail(found.error());
    auto ready = is_ready(*found);
    if (!ready) return fail(ready.error());
    if (*ready) return {};

    // 2. Wait for others that do the same, and look again: what they have done is done.
    static const PostgresStatement begin{"begin"};
    static const PostgresStatement lock{fmt::format("select pg_advisory_xact_lock({})", migration_lock)};
    static const PostgresStatement commit{"commit"};
    const auto locked = connection.exchange({{&begin}, {&lock}}, options.scan_timeout);
    if (!locked) return fail(open_error(locked.error()));
    found = read_version(connection, options);
    if (!found) return fail(found.error());
    ready = is_ready(*found);
    if (!ready) return fail(ready.error());

    // 3. Migrate, in the transaction that has the lock: all steps or none.
    std::string script;
    if (found->version == 0) {
        script =
            "create table schema_migrations (version bigint primary key, name text not null, "
            "applied_at bigint not null, least bigint not null);\n";
    }
    for (auto next = static_cast<std::size_t>(found->version); next < postgres_migrations().size(); ++next) {
        const PostgresMigration& migration = postgres_migrations()[next];
        script += migration.sql;
        script += fmt::format(
            "\ninsert into schema_migrations values ({}, '{}', "
            "(extract(epoch from clock_timestamp()) * 1000000)::bigint, {});\n",
            next + 1, migration.name, migration.least);
    }
    if (!*ready) {
        if (auto done = connection.execute(script, options.scan_timeout); !done) return fail(open_error(done.error()));
    }
    const auto committed = connection.exchange({{&commit}}, options.exchange_timeout);
    if (!committed) return fail(open_error(committed.error()));
    return {};
}

}  // namespace interlock::store
