#include "store/postgres_cluster.h"

#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "store/postgres_columns.h"
#include "store/postgres_schema.h"

namespace interlock::store {
namespace {

constexpr const char* channel = "interlock";
constexpr std::size_t payload_bytes_max = 7900;  // The server takes less than 8000.

// The columns of a result's row, one after another. A value that makes no sense leaves its member as it is.
class RowReader {
 public:
    RowReader(const PGresult& result, int row) : result_(result), row_(row) {}

    template <class T>
    RowReader& to(T& member) {
        good_ = good_ && read_value(result_, row_, next_++, value_) && read_value(value_, member);
        return *this;
    }
    RowReader& to(Id& member) {
        Strong<struct AnyIdTag, Id> id;
        to(id);
        member = id.value;
        return *this;
    }
    bool good() const { return good_; }

 private:
    const PGresult& result_;
    int row_;
    int next_ = 0;
    bool good_ = true;
    Value value_;
};

ReadError makes_no_sense(std::string_view table) { return {fmt::format("a row of {} makes no sense", table)}; }

}  // namespace

// ---- nodes --------------------------------------------------------------------------------------------------------

Result<Instant, ReadError> PostgresCluster::renew(const Node& me, Duration lease) {
    static const PostgresStatement renew{
        fmt::format("insert into nodes(id, boot, name, url, version, started_at, seen_at, lease_until) "
                    "select $1::bytea, $2::bytea, $3::text, $4::text, $5::text, now_us, now_us, now_us + $6::bigint "
                    "from (select {} as now_us) as clock on conflict (boot) do update set name = excluded.name, "
                    "url = excluded.url, version = excluded.version, seen_at = excluded.seen_at, "
                    "lease_until = excluded.lease_until returning seen_at",
                    store_time)};
    // Every start leaves a row. Those that were over a day ago are of no use to anybody.
    static const PostgresStatement forget{
        fmt::format("delete from nodes where lease_until < {} - 86400000000", store_time)};
    PostgresRequest request{&renew};
    request.parameters.id(me.id).id(me.boot).text(me.name).text(me.url).text(me.version);
    request.parameters.integer(lease.count());
    const auto answers = ask({request, {&forget}});
    if (!answers) return fail(answers.error());
    Instant now;
    if (!RowReader(*answers->front(), 0).to(now).good()) return fail(makes_no_sense("nodes"));
    return now;
}

Result<void, ReadError> PostgresCluster::leave(Id boot) {
    static const PostgresStatement leave{
        fmt::format("update nodes set lease_until = least(lease_until, {}) where boot = $1::bytea", store_time)};
    PostgresRequest request{&leave};
    request.parameters.id(boot);
    if (const auto done = ask({request}); !done) return fail(done.error());
    return {};
}

Result<std::vector<Node>, ReadError> PostgresCluster::nodes() {
    static const PostgresStatement list{
        fmt::format("select id, boot, name, url, version, started_at, seen_at, lease_until, lease_until > {} "
                    "from nodes order by started_at, boot",
                    store_time)};
    const auto answers = ask({{&list}});
    if (!answers) return fail(answers.error());
    std::vector<Node> all;
    for (int row = 0; row < PQntuples(answers->front().get()); ++row) {
        Node& node = all.emplace_back();
        RowReader columns(*answers->front(), row);
        columns.to(node.id).to(node.boot).to(node.name).to(node.url).to(node.version);
        columns.to(node.started_at).to(node.seen_at).to(node.lease_until).to(node.alive);
        if (!columns.good()) return fail(makes_no_sense("nodes"));
    }
    return all;
}

// ---- lanes --------------------------------------------------------------------------------------------------------

namespace {

Result<std::vector<LaneHolder>, ReadError> read_lanes(const PGresult& result) {
    std::vector<LaneHolder> all;
    for (int row = 0; row < PQntuples(&result); ++row) {
        LaneHolder& lane = all.emplace_back();
        if (!RowReader(result, row).to(lane.org).to(lane.epoch).to(lane.node).to(lane.boot).good()) {
            return fail(makes_no_sense("lanes"));
        }
    }
    return all;
}

}  // namespace

Result<std::vector<LaneHolder>, ReadError> PostgresCluster::lanes() {
    static const PostgresStatement list{
        "select orgs.org, coalesce(epoch, 0), node, boot from orgs left join lanes on lanes.org = orgs.org order by 1"};
    const auto answers = ask({{&list}});
    if (!answers) return fail(answers.error());
    return read_lanes(*answers->front());
}

Result<LaneHolder, ReadError> PostgresCluster::lane_of(core::OrgId org) {
    static const PostgresStatement find{"select org, epoch, node, boot from lanes where org = $1::bigint"};
    PostgresRequest request{&find};
    request.parameters.integer(org.value);
    const auto answers = ask({request});
    if (!answers) return fail(answers.error());
    const auto found = read_lanes(*answers->front());
    if (!found) return fail(found.error());
    return found->empty() ? LaneHolder{.org = org, .epoch = 0, .node = {}, .boot = {}} : found->front();
}

// ---- what all nodes share -----------------------------------------------------------------------------------------

namespace {

// The control file only knows the timeline of the last checkpoint; the name of the log's present file begins with the
// present one.
constexpr const char* identify_sql =
    "select (select system_identifier::text from pg_control_system()) || '/' || "
    "(select oid::text from pg_database where datname = current_database()), "
    "left(pg_walfile_name(pg_current_wal_lsn()), 8)";

ReadError unknown_database(const ReadError& why) {
    return {
        fmt::format("cannot tell which database this is: {}; the user needs to be allowed to call "
                    "pg_control_system, pg_current_wal_lsn and pg_walfile_name",
                    why.detail)};
}

Result<StoreIdentity, ReadError> identity_of(std::string system, const std::string& timeline) {
    StoreIdentity identity{.system = std::move(system)};
    const char* end = timeline.data() + timeline.size();
    const bool good = !identity.system.empty() && !timeline.empty() &&
                      std::from_chars(timeline.data(), end, identity.timeline, 16).ptr == end;
    if (!good) return fail(ReadError{"the name of the database's log makes no sense"});
    return identity;
}

}  // namespace

Result<StoreIdentity, ReadError> PostgresCluster::identity() {
    static const PostgresStatement identify{identify_sql};
    const auto answers = ask({{&identify}});
    if (!answers) return fail(unknown_database(answers.error()));
    std::string system;
    std::string timeline;
    RowReader(*answers->front(), 0).to(system).to(timeline);
    return identity_of(std::move(system), timeline);
}

Result<StoreIdentity, ReadError> read_identity(Snapshot& snapshot) {
    std::string system;
    std::string timeline;
    const auto read = snapshot.query(identify_sql, [&](const std::vector<Value>& row) {
        if (const auto* text = std::get_if<std::string>(&row[0])) system = *text;
        if (const auto* text = std::get_if<std::string>(&row[1])) timeline = *text;
    });
    if (!read) return fail(unknown_database(read.error()));
    return identity_of(std::move(system), timeline);
}

Result<std::string, ReadError> PostgresCluster::block_reason() {
    static const PostgresStatement read{"select value from facts where name = 'objection'"};
    const auto answers = ask({{&read}});
    if (!answers) return fail(answers.error());
    std::string why;
    const PGresult& rows = *answers->front();
    if (PQntuples(&rows) == 1 && !RowReader(rows, 0).to(why).good()) return fail(makes_no_sense("facts"));
    return why;
}

Result<void, ReadError> PostgresCluster::set_block_reason(const std::string& why) {
    static const PostgresStatement set{
        "insert into facts(name, value) values ('objection', $1::text) on conflict (name) do update set value = "
        "excluded.value"};
    std::vector<PostgresRequest> requests{{&set}};
    requests.front().parameters.text(why);
    const auto done = ask(requests);
    if (!done) return fail(done.error());
    return {};
}

Result<std::string, ReadError> PostgresCluster::secret() {
    static const PostgresStatement make{
        "insert into facts(name, value) values ('secret', replace(gen_random_uuid()::text || gen_random_uuid()::text, "
        "'-', '')) on conflict do nothing"};
    static const PostgresStatement read{"select value from facts where name = 'secret'"};
    const auto answers = ask({{&make}, {&read}});
    if (!answers) return fail(answers.error());
    std::string secret;
    if (PQntuples(answers->back().get()) != 1 || !RowReader(*answers->back(), 0).to(secret).good()) {
        return fail(makes_no_sense("facts"));
    }
    return secret;
}

// ---- hints --------------------------------------------------------------------------------------------------------

Result<void, ReadError> PostgresCluster::tell(const std::vector<core::OrgId>& orgs) {
    static const PostgresStatement notify{fmt::format("select pg_notify('{}', $1::text)", channel)};
    std::vector<std::string> payloads;
    for (const core::OrgId org : orgs) {
        if (payloads.empty() || payloads.back().size() > payload_bytes_max) payloads.emplace_back();
        payloads.back() += fmt::format("{}{}", payloads.back().empty() ? "" : ",", org.value);
    }
    if (payloads.empty()) return {};
    std::vector<PostgresRequest> requests;
    for (const std::string& payload : payloads) requests.emplace_back(&notify).parameters.text(payload);
    if (const auto told = ask(requests); !told) return fail(told.error());
    return {};
}

Result<std::vector<core::OrgId>, ReadError> PostgresCluster::listen(Duration timeout) {
    static const PostgresStatement listen{fmt::format("listen {}", channel)};
    if (auto connected = connect(); !connected) return fail(connected.error());
    if (!listening_) {
        if (const auto done = ask({{&listen}}); !done) return fail(done.error());
        listening_ = true;
    }
    const auto payloads = connection_->notifications(std::chrono::ceil<std::chrono::milliseconds>(timeout));
    if (!payloads) return fail(ReadError{payloads.error().detail});
    std::vector<core::OrgId> orgs;
    for (const std::string& payload : *payloads) {
        const char* at = payload.data();
        const char* const end = at + payload.size();
        for (std::uint32_t org = 0; at < end; ++at) {  // What is no number is somebody else's, and no hint.
            const auto [after, error] = std::from_chars(at, end, org);
            if (error != std::errc()) break;
            orgs.emplace_back(org);
            at = after;
        }
    }
    return orgs;
}

// ---- asking -------------------------------------------------------------------------------------------------------

Result<std::vector<PostgresResult>, ReadError> PostgresCluster::ask(const std::vector<PostgresRequest>& requests) {
    if (auto connected = connect(); !connected) return fail(connected.error());
    auto answers = connection_->exchange(requests, options_.exchange_timeout);
    if (!answers) return fail(ReadError{answers.error().detail});
    return std::move(*answers);
}

Result<void, ReadError> PostgresCluster::connect() {
    if (connection_ && connection_->usable()) return {};
    listening_ = false;
    auto connection = PostgresConnection::connect(options_, PostgresConnection::Use::read, round_trips_);
    if (!connection) return fail(ReadError{connection.error().detail});
    if (!schema_found_) {
        if (auto found = migrate(**connection, options_); !found) return fail(ReadError{found.error().detail});
        schema_found_ = true;
    }
    connection_ = std::move(*connection);
    return {};
}

}  // namespace interlock::store
