#include "cli/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <thread>

#include "cli/text.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

struct Load {
    std::string name;
    std::size_t connections = 8;
    double seconds = 5;
    std::size_t batch = 1;  // Charges per request.
};

struct Measured {
    std::vector<std::int64_t> waits_us = {};  // One per successful request.
    std::int64_t charges = 0;
    std::int64_t errors = 0;
    std::string first_error = {};
};

struct BenchReport {
    Load load;
    Measured all;
    double took_s = 0;

    double rate() const { return took_s > 0 ? static_cast<double>(all.charges) / took_s : 0; }
};

struct BenchTarget {
    const Context& context;
    ServerAddress server;
    std::string agent;
};

std::string body_of(const BenchTarget& target, const Load& load, const std::string& key) {
    const auto charge = [&](std::size_t number) {
        return json::object{{"agent", target.agent}, {"provider", "bench"}, {"model", "bench"},
                            {"cost", "0.000000001"}, {"calls", 1},          {"key", fmt::format("{}-{}", key, number)}};
    };
    if (load.batch == 1) return json::serialize(charge(0));
    json::array charges;
    for (std::size_t i = 0; i < load.batch; ++i) charges.push_back(charge(i));
    return json::serialize(charges);
}

// One connection, one request after the other, without retries. Failures are counted.
Measured drive(const BenchTarget& target, const Load& load, std::size_t worker, steady_clock::time_point until) {
    Measured measured;
    const auto transport = target.context.world.dial(target.server.address(), target.context.timeout());
    for (std::int64_t number = 0; steady_clock::now() < until; ++number) {
        const std::string key = fmt::format("{}-{}-{}-{}", target.agent, load.name, worker, number);
        HttpRequest request{.method = "POST", .target = "/v1/charges", .body = body_of(target, load, key)};
        request.headers = {{"Authorization", "Bearer " + target.server.key}, {"Content-Type", "application/json"}};

        const auto start = steady_clock::now();
        const auto answer = transport->send(request);
        const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start);
        const bool good = answer && answer->status < 300;
        boost::system::error_code unreadable;
        const json::value refused =
            good && load.batch > 1 ? member_of(json::parse(answer->body, unreadable), "refused") : 0;
        if (good && text_of(refused) == "0") {
            measured.waits_us.push_back(waited.count());
            measured.charges += static_cast<std::int64_t>(load.batch);
            continue;
        }
        if (measured.errors++ == 0)
            measured.first_error = answer ? failure_of(*answer, Asked::changing).detail : answer.error().detail;
        const bool hopeless = measured.charges == 0 && measured.errors >= 10;
        if (hopeless) break;
    }
    return measured;
}

BenchReport measure(const BenchTarget& target, const Load& load) {
    target.context.output.step(fmt::format("{}: {} for {:g} s", load.name,
                                           count_of(static_cast<std::int64_t>(load.connections), "connection"),
                                           load.seconds));
    const auto start = steady_clock::now();
    const auto until =
        start + std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(load.seconds));
    std::vector<Measured> each(load.connections);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < load.connections; ++i) {
            threads.emplace_back([&, i] { each[i] = drive(target, load, i, until); });
        }
    }
    BenchReport result{
        .load = load, .all = {}, .took_s = std::chrono::duration<double>(steady_clock::now() - start).count()};
    for (Measured& one : each) {
        std::ranges::move(one.waits_us, std::back_inserter(result.all.waits_us));
        result.all.charges += one.charges;
        result.all.errors += one.errors;
        if (result.all.first_error.empty()) result.all.first_error = one.first_error;
    }
    std::ranges::sort(result.all.waits_us);
    target.context.output.step("");
    return result;
}

void print(const Context& context, const std::vector<BenchReport>& results) {
    constexpr std::array<std::pair<const char*, double>, 3> shares{{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}}};
    if (context.settings.json) {
        json::array rows;
        for (const BenchReport& result : results) {
            json::object row{{"load", result.load.name},      {"connections", result.load.connections},
                             {"batch", result.load.batch},    {"seconds", result.took_s},
                             {"charges", result.all.charges}, {"charges_per_s", result.rate()},
                             {"errors", result.all.errors}};
            for (const auto& [name, share] : shares)
                row[fmt::format("{}_us", name)] = percentile(result.all.waits_us, share);
            rows.push_back(std::move(row));
        }
        return context.output.data(json::serialize(json::object{{"items", std::move(rows)}}) + "\n");
    }
    TextTable table{.columns = {{"LOAD"},
                                {"CONNECTIONS", Align::right},
                                {"CHARGES/S", Align::right},
                                {"P50", Align::right},
                                {"P95", Align::right},
                                {"P99", Align::right},
                                {"ERRORS", Align::right}},
                    .rows = {}};
    for (const BenchReport& result : results) {
        std::vector<TextCell> row{{.text = result.load.name},
                                  {.text = fmt::format("{}", result.load.connections)},
                                  {.text = count(static_cast<std::int64_t>(result.rate()))}};
        for (const auto& [name, share] : shares) {
            row.push_back({.text = duration(std::chrono::microseconds(percentile(result.all.waits_us, share)))});
        }
        row.push_back({.text = count(result.all.errors), .style = result.all.errors > 0 ? Style::red : Style::plain});
        table.rows.push_back(std::move(row));
    }
    context.output.data(render(table, context.output));
}

}  // namespace

std::int64_t percentile(const std::vector<std::int64_t>& sorted, double share) {
    if (sorted.empty()) return 0;
    const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
    return sorted[std::min(at, sorted.size() - 1)];
}

ExitCode bench(Context& context, const Invocation& invocation) {
    // 1. Read the flags.
    const auto connections = static_cast<std::size_t>(invocation.number("connections", 8));
    const double seconds = invocation.number("seconds", 5);
    const auto batch_size = static_cast<std::size_t>(invocation.number("batch", 100));

    // 2. Create an agent, so that no counters of other agents change.
    const auto server = find_server(context.settings, context.environment);
    if (!server) return context.report(server.error());
    auto client = context.connect();
    if (!client) return context.report(client.error());
    const std::string key = context.world.fresh_key();
    const std::string agent = "bench-" + key.substr(key.size() - 8);
    const auto made = client->change({.method = "PUT", .target = "/v1/agents/" + agent, .body = "{}", .key = key});
    if (!made) return context.report(made.error());

    // 3. Measure single charges, then batches.
    const BenchTarget target{.context = context, .server = *server, .agent = agent};
    std::vector<BenchReport> results{
        measure(target, {.name = "single", .connections = connections, .seconds = seconds})};
    if (batch_size > 1) {
        results.push_back(measure(target, {.name = fmt::format("batches of {}", batch_size),
                                           .connections = connections,
                                           .seconds = seconds,
                                           .batch = batch_size}));
    }
    print(context, results);

    // 4. Archive the agent and show the results.
    const auto archived = client->change({.method = "DELETE", .target = "/v1/agents/" + agent, .key = key + "-end"});
    if (!archived) return context.report(archived.error());
    context.remark(fmt::format("agent {} is archived; its charges of one nano-dollar each stay in the ledger", agent));
    std::int64_t errors = 0;
    for (const BenchReport& result : results) {
        errors += result.all.errors;
        if (!result.all.first_error.empty())
            context.remark(fmt::format("first error of {}: {}", result.load.name, one_line(result.all.first_error)));
    }
    return errors == 0 ? ExitCode::ok : ExitCode::refused;
}

}  // namespace interlock::cli
