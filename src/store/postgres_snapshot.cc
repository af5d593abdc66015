#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/by_text.h"
#include "store/postgres_columns.h"
#include "store/postgres_store.h"

namespace interlock::store {
namespace {

class PostgresSnapshot final : public Snapshot {
 public:
    explicit PostgresSnapshot(PostgresOptions options) : options_(std::move(options)) {}

    using Snapshot::query;
    Result<void, ReadError> query(std::string_view sql, const std::vector<Parameter>& given,
                                  const OnValues& on_row) override {
        // PostgreSQL takes no parameter that the question does not mention.
        const std::vector<Parameter> parameters(given.begin(), given.begin() + mentioned_in(sql, given.size()));
        if (asking_) return fail(ReadError{"a question was asked before the one before it was answered"});
        // Between two moments the connection may have died unseen. Nothing has been read of the new one yet, so a new
        // connection is as good.
        const bool may_retry = moment_ == Moment::none && connection_ && connection_->usable();
        bool any = false;
        auto done = try_query(sql, parameters, on_row, any);
        if (!done && !any && may_retry && !done.error().refused) done = try_query(sql, parameters, on_row, any);
        // A moment that was under way cannot be had again.
        if (done) moment_ = Moment::held;
        if (!done && (any || moment_ == Moment::held)) moment_ = Moment::lost;
        if (!done) return fail(ReadError{done.error().detail});
        return {};
    }

    Result<std::int64_t, ReadError> store_bytes() override {
        std::int64_t bytes = 0;
        auto read = query("select pg_database_size(current_database())",
                          [&](const std::vector<Value>& row) { bytes = std::get<std::int64_t>(row.front()); });
        if (!read) return fail(read.error());
        return bytes;
    }

    Result<void, ReadError> renew() override {
        static const PostgresStatement commit{"commit"};
        if (std::exchange(moment_, Moment::none) != Moment::held) return {};
        // The answer is of no interest; whatever asks next takes it.
        if (const auto sent = connection_->send({{&commit}}); !sent) return fail(ReadError{sent.error().detail});
        return {};
    }

 private:
    static constexpr std::size_t statements_max = 64;
    enum class Moment { none, held, lost };

    Result<void, PostgresError> try_query(std::string_view sql, const std::vector<Parameter>& parameters,
                                          const OnValues& on_row, bool& any) {
        static const PostgresStatement begin{"begin isolation level repeatable read read only"};
        if (auto connected = connect(); !connected) return connected;
        std::vector<PostgresRequest> requests;
        if (moment_ == Moment::none) requests.emplace_back(&begin);
        requests.emplace_back(&prepared(sql, parameters), values_of(parameters));
        std::vector<Value> values;
        bool good = true;
        asking_ = true;
        const auto answers = connection_->exchange(requests, options_.read_timeout, [&](const PGresult& row) {
            any = true;
            good = read_values(row, 0, values) && good;
            if (good) on_row(values);
        });
        asking_ = false;
        if (!answers) return fail(answers.error());
        if (!good)
            return fail(
                PostgresError{.refused = true, .detail = "a value is of a type that is not expected, or does not fit"});
        return {};
    }

    Result<void, PostgresError> connect() {
        if (moment_ == Moment::lost) return fail(PostgresError{.detail = "an earlier question of this moment failed"});
        if (connection_ && connection_->usable()) return {};
        if (moment_ == Moment::held) {
            return fail(PostgresError{.detail = "the primary was replaced while this moment was read"});
        }
        statements_.clear();
        auto connected = PostgresConnection::connect(options_, PostgresConnection::Use::read, round_trips_);
        if (!connected) return fail(PostgresError{.detail = connected.error().detail});
        connection_ = std::move(*connected);
        return {};
    }

    // A snapshot that is renewed answers the same few questions again and again.
    const PostgresStatement& prepared(std::string_view sql, const std::vector<Parameter>& parameters) {
        constexpr std::array types{postgres_int8, postgres_text, postgres_bytea};
        std::string name(sql);
        for (const Parameter& parameter : parameters) name += static_cast<char>('0' + parameter.index());
        if (const auto found = statements_.find(name); found != statements_.end()) return *found->second;
        if (statements_.size() >= statements_max) {
            statements_.clear();
            connection_->forget_statements();
        }
        auto statement = std::make_unique<PostgresStatement>(std::string(sql));
        for (const Parameter& parameter : parameters) statement->types.push_back(types[parameter.index()]);
        return *statements_.emplace(std::move(name), std::move(statement)).first->second;
    }

    static std::ptrdiff_t mentioned_in(std::string_view sql, std::size_t count) {
        while (count > 0 && sql.find(fmt::format("${}", count)) == std::string_view::npos) --count;
        return static_cast<std::ptrdiff_t>(count);
    }

    static PostgresParameters values_of(const std::vector<Parameter>& parameters) {
        PostgresParameters values;
        for (const Parameter& parameter : parameters) {
            if (const auto* number = std::get_if<std::int64_t>(&parameter)) {
                values.integer(*number);
            } else if (const auto* text = std::get_if<std::string>(&parameter)) {
                values.text(*text);
            } else {
                values.id(std::get<Id>(parameter));
            }
        }
        return values;
    }

    const PostgresOptions options_;
    std::atomic<std::int64_t> round_trips_ = 0;
    ByText<std::unique_ptr<PostgresStatement>> statements_;
    std::unique_ptr<PostgresConnection> connection_;
    Moment moment_ = Moment::none;
    bool asking_ = false;  // Rows are on their way; the connection has room for nothing else.
};

}  // namespace

Result<std::unique_ptr<Snapshot>, OpenError> open_snapshot(const PostgresOptions& options) {
    return std::unique_ptr<Snapshot>(std::make_unique<PostgresSnapshot>(options));
}

}  // namespace interlock::store
