#include "store/postgres_schema.h"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/embedded.h"
#include "base/ensure.h"
#include "store/postgres_columns.h"

namespace interlock::embedded {
EmbeddedFiles postgres_schema();  // schema/postgres, by name.
}  // namespace interlock::embedded

namespace interlock::store {

const std::vector<PostgresMigration>& postgres_migrations() {
    static const std::vector<PostgresMigration> all = [] {
        std::vector<PostgresMigration> migrations;
        for (const EmbeddedFile& file : embedded::postgres_schema()) {
            const auto number = static_cast<std::int64_t>(migrations.size() + 1);
            ensure(file.name.starts_with(fmt::format("{:03}_", number)), "migrations are numbered without a gap");
            // A program of an earlier version cannot work on what any of them leaves.
            migrations.push_back({file.name.substr(0, file.name.find('.')), file.bytes, number});
        }
        return migrations;
    }();
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
