#include "store/postgres_repair.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include <fmt/format.h>

#include "store/postgres_columns.h"
#include "store/repair_edit.h"

namespace interlock::store {
namespace {

constexpr std::size_t edits_per_journey_max = 1000;

// Corrections of the same columns are the same statement. The division fails the transaction where no row was touched.
const PostgresStatement& prepared(std::map<std::string, PostgresStatement>& statements, const RepairEdit& edit) {
    constexpr std::array types{postgres_int8, postgres_text, postgres_bytea};
    PostgresStatement made{fmt::format("with touched as ({} returning 1) select 1 / count(*) from touched", edit.sql)};
    for (const StoredValue* value : edit.values) made.types.push_back(types[value->index()]);
    return statements.try_emplace(edit.sql, std::move(made)).first->second;
}

PostgresRequest request_for(std::map<std::string, PostgresStatement>& statements, const Repair& repair) {
    const RepairEdit edit = edit_for(repair);
    PostgresRequest request{&prepared(statements, edit)};
    for (const StoredValue* value : edit.values) {
        if (const auto* number = std::get_if<std::int64_t>(value)) request.parameters.integer(*number);
        if (const auto* text = std::get_if<std::string>(value)) request.parameters.text(*text);
        if (const auto* blob = std::get_if<Blob>(value)) request.parameters.bytes(blob->bytes);
    }
    return request;
}

}  // namespace

Result<void, CommitError> carry_out(const PostgresOptions& server, const std::vector<PostgresRequest>& proofs,
                                    const std::vector<Repair>& repairs) {
    using enum CommitError::Kind;
    static const PostgresStatement begin{"begin"};
    static const PostgresStatement commit{"commit"};
    static constexpr const char* division_by_zero = "22012";
    std::map<std::string, PostgresStatement> statements;  // Outlives the connection that prepares them.
    std::atomic<std::int64_t> round_trips = 0;
    auto connected = PostgresConnection::connect(server, PostgresConnection::Use::lane, round_trips);
    if (!connected) return fail(CommitError{rolled_back, connected.error().detail});
    PostgresConnection& connection = **connected;

    // 1. Begin, and prove that nobody else writes.
    std::vector<PostgresRequest> opening{{&begin}};
    opening.insert(opening.end(), proofs.begin(), proofs.end());
    if (auto proved = connection.exchange(opening, server.exchange_timeout); !proved) {
        return fail(CommitError{rolled_back, proved.error().detail});
    }

    // 2. Correct. After an error the connection is closed, which undoes all of it.
    for (std::size_t done = 0; done < repairs.size();) {
        const auto some = std::span(repairs).subspan(done, std::min(edits_per_journey_max, repairs.size() - done));
        std::vector<PostgresRequest> requests;
        for (const Repair& repair : some) requests.push_back(request_for(statements, repair));
        if (auto edited = connection.exchange(requests, server.exchange_timeout); !edited) {
            const PostgresError& error = edited.error();
            return fail(CommitError{rolled_back,
                                    error.state == division_by_zero
                                        ? fmt::format("a row of {} is no longer what it was", some[error.at].row.table)
                                        : error.detail});
        }
        done += some.size();
    }

    // 3. Commit.
    const auto committed = connection.exchange({{&commit}}, server.exchange_timeout);
    if (!committed)
        return fail(CommitError{committed.error().refused ? rolled_back : unknown, committed.error().detail});
    if (!connection.warning().empty()) return fail(CommitError{unknown, connection.warning()});
    return {};
}

}  // namespace interlock::store
