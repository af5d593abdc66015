#include "server/offline_store.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/clock.h"
#include "engine/id_source.h"
#include "server/data_dir.h"
#include "store/postgres_cluster.h"
#include "store/postgres_schema.h"
#include "store/postgres_store.h"
#include "store/sqlite_file.h"
#include "store/sqlite_store.h"

namespace interlock::server {
namespace {

using store::OpenError;
using enum OpenError::Kind;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

OpenError no_store_in(const StoreAddress& address) {
    return {unavailable, fmt::format("no Interlock store in {}", address.shown())};
}

// What there is in a database.
struct FoundTables {
    std::int64_t tables = 0;  // Of anybody.
    std::int64_t ours = 0;    // Of those by which a store is known.
    std::int64_t least = 0;   // The version that is needed to understand it.
    bool store() const { return ours == 3; }
};

Result<FoundTables, OpenError> find_tables(store::Snapshot& database) {
    FoundTables found;
    const auto number = [](const store::Value& value) {
        const auto* there = std::get_if<std::int64_t>(&value);
        return there == nullptr ? 0 : *there;
    };
    auto read = database.query(
        "select count(*), count(*) filter (where relname in ('schema_migrations', 'lanes', 'feed_pages')) from "
        "pg_class where relnamespace = to_regnamespace(quote_ident(current_schema())) and relkind in ('r', 'p', 'v', "
        "'m')",
        [&](const std::vector<store::Value>& row) {
            found.tables = number(row[0]);
            found.ours = number(row[1]);
        });
    if (read && found.store()) {
        read = database.query("select max(least) from schema_migrations",
                              [&](const std::vector<store::Value>& row) { found.least = number(row[0]); });
    }
    if (!read) return fail(OpenError{unavailable, read.error().detail});
    return found;
}

}  // namespace

std::string StoreAddress::shown() const {
    const std::size_t begin = text.find("://");
    if (!is_database()) return text;
    const std::size_t end = text.find_first_of("/?#", begin + 3);
    const std::size_t at = text.rfind('@', end);
    const std::size_t colon = text.find(':', begin + 3);
    std::string plain = text;
    if (at != std::string::npos && colon < at) plain.replace(colon, at - colon, ":***");
    // What comes as a parameter is not shown either: passwords are among them.
    return plain.substr(0, plain.find('?'));
}

// ---- looking ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<store::Snapshot>, OpenError> look_into(const StoreAddress& address) {
    if (!address.is_database()) {
        if (exists(address.text + "/node.id") && !exists(store::database_path(address.text))) {
            return fail(OpenError{unavailable,
                                  "this directory belongs to a node whose store is a PostgreSQL database; use "
                                  "--store postgres://…"});
        }
        return store::open_snapshot(address.text);
    }
    auto snapshot = store::open_snapshot(store::PostgresOptions{.uri = address.text});
    if (!snapshot) return snapshot;
    const auto found = find_tables(**snapshot);
    if (!found) return fail(found.error());
    if (!found->store()) return fail(no_store_in(address));
    if (found->least > static_cast<std::int64_t>(store::postgres_migrations().size())) {
        return fail(OpenError{too_new, fmt::format("{} has a later version; upgrade interlock", address.shown())});
    }
    return snapshot;
}

Result<bool, OpenError> is_there(const StoreAddress& address) {
    if (!address.is_database()) return exists(store::database_path(address.text));
    auto snapshot = store::open_snapshot(store::PostgresOptions{.uri = address.text});
    if (!snapshot) return fail(snapshot.error());
    const auto found = find_tables(**snapshot);
    if (!found) return fail(found.error());
    if (!found->store() && found->tables > 0) {
        return fail(OpenError{not_ours, "the database has tables of another program; use an empty database"});
    }
    return found->store();
}

// ---- having -------------------------------------------------------------------------------------------------------

namespace {

class OfflineDirectory final : public OfflineStore {
 public:
    explicit OfflineDirectory(store::SqliteStore::Options options)
        : directory_(options.directory), store_(std::move(options)) {}

    store::Store& store() override { return store_; }
    Result<void, store::CommitError> repair(const std::vector<store::Repair>& repairs) override {
        return store_.repair(repairs);
    }
    Result<std::optional<store::CopyMark>, store::ReadError> mark() override {
        return store::read_copy_mark(directory_);
    }
    Result<void, store::ReadError> set_mark(const store::CopyMark& mark) override {
        return store::write_copy_mark(directory_, mark);
    }
    Result<void, store::ReadError> remove_mark() override { return store::remove_copy_mark(directory_); }
    Result<void, store::ReadError> still_ours() override { return {}; }  // By its lock.

 private:
    std::string directory_;
    store::SqliteStore store_;
};

class OfflineDatabase final : public OfflineStore {
 public:
    explicit OfflineDatabase(const std::string& uri)
        : server_{.uri = uri}, cluster_(server_), store_(options_of(server_, boot_)) {}

    Result<void, OpenError> refuse_if_alive() {
        const auto nodes = cluster_.nodes();
        if (!nodes) return fail(OpenError{unavailable, nodes.error().detail});
        const auto alive = std::ranges::find_if(*nodes, &store::Node::alive);
        if (alive == nodes->end()) return {};
        return fail(OpenError{in_use, fmt::format("node '{}' at {} is using this database; stop all nodes first",
                                                  alive->name, alive->url.empty() ? "no address" : alive->url)});
    }

    store::Store& store() override { return store_; }
    Result<void, store::CommitError> repair(const std::vector<store::Repair>& repairs) override {
        return store_.repair(repairs);
    }
    Result<std::optional<store::CopyMark>, store::ReadError> mark() override {
        auto snapshot = store_.snapshot();
        if (!snapshot) return fail(snapshot.error());
        return store::read_copy_mark(**snapshot);
    }
    Result<void, store::ReadError> set_mark(const store::CopyMark& mark) override {
        return store::write_copy_mark(store_.pool(), mark);
    }
    Result<void, store::ReadError> remove_mark() override { return store::remove_copy_mark(store_.pool()); }

    Result<void, store::ReadError> still_ours() override {
        if (auto alone = refuse_if_alive(); !alone) return fail(store::ReadError{alone.error().detail});
        const auto lanes = cluster_.lanes();
        if (!lanes) return fail(lanes.error());
        const bool ours = std::ranges::all_of(
            *lanes, [this](const store::LaneHolder& lane) { return lane.epoch == 0 || lane.boot == boot_; });
        if (!ours) return fail(store::ReadError{"a node has started on the database in the meantime"});
        return {};
    }

    // The server learns of new rows by itself, but later, and until then it reads them the long way round.
    void look_around() override {
        static const store::PostgresStatement analyze{"analyze"};
        auto connection = store_.pool().lend();
        if (connection) (void)(*connection)->exchange({{&analyze}}, server_.scan_timeout);
    }

 private:
    static store::PostgresStore::Options options_of(const store::PostgresOptions& server, Id boot) {
        store::PostgresStore::Options options;
        options.server = server;
        options.boot = boot;
        options.node = boot;
        return options;
    }

    const Id boot_ = engine::IdSource().next(engine::Clock().now());
    store::PostgresOptions server_;
    store::PostgresCluster cluster_;
    store::PostgresStore store_;
};

Result<std::unique_ptr<OfflineStore>, OpenError> open_directory(const StoreAddress& address,
                                                                const OfflineOptions& options) {
    if (options.if_missing == OfflineOptions::IfMissing::make) {
        if (auto made = make_data_dir(address.text); !made) return fail(OpenError{unavailable, made.error()});
    }
    store::SqliteStore::Options how;
    how.directory = address.text;
    if (options.unfinished_copy == OfflineOptions::UnfinishedCopy::open) {
        how.unfinished_copy = store::SqliteStore::UnfinishedCopy::opened;
    }
    auto opened = std::make_unique<OfflineDirectory>(std::move(how));
    if (auto done = opened->store().open(); !done) return fail(done.error());
    return std::unique_ptr<OfflineStore>(std::move(opened));
}

Result<std::unique_ptr<OfflineStore>, OpenError> open_database(const StoreAddress& address,
                                                               const OfflineOptions& options) {
    auto opened = std::make_unique<OfflineDatabase>(address.text);
    if (auto alone = opened->refuse_if_alive(); !alone) return fail(alone.error());
    if (options.unfinished_copy == OfflineOptions::UnfinishedCopy::refuse) {
        const auto mark = opened->mark();
        if (!mark) return fail(OpenError{unavailable, mark.error().detail});
        if (*mark) return fail(OpenError{not_ours, store::unfinished_copy(**mark)});
    }
    if (auto done = opened->store().open(); !done) return fail(done.error());
    return std::unique_ptr<OfflineStore>(std::move(opened));
}

}  // namespace

Result<std::unique_ptr<OfflineStore>, OpenError> open_offline(const StoreAddress& address,
                                                              const OfflineOptions& options) {
    // Opening for writing would make a store where there is none.
    if (options.if_missing == OfflineOptions::IfMissing::refuse) {
        if (const auto there = look_into(address); !there) return fail(there.error());
    }
    return address.is_database() ? open_database(address, options) : open_directory(address, options);
}

}  // namespace interlock::server
