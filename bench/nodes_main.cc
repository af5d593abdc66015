// One node of a benchmark: clients in this process, a command router, and PostgreSQL behind it. bench/nodes.py starts
// one or several of these, and says when to begin.
//
// It prints "ready" when its workload is set up, begins when a line comes in on standard input, and ends with one line
// of JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "bench/node_target.h"
#include "bench/workload.h"

namespace {

using namespace interlock;

std::unique_ptr<bench::Workload> workload_of(const std::string& name, std::size_t agents) {
    if (name == "holds") return bench::holds_and_settles(agents);
    if (name == "runs") return bench::runs(agents);
    if (name == "session") return bench::appends("append", 1, 1024);
    return bench::charges("charge", agents);
}

}  // namespace

int main(int argc, char** argv) {
    std::string uri;
    std::string load = "charges";
    std::size_t agents = 1;
    std::uint32_t org = 1;
    bench::LoopOptions loop;
    loop.warm_up_seconds = 1;
    CLI::App app("One node of bench/nodes.py");
    app.add_option("--store", uri)->required();
    app.add_option("--load", load)->check(CLI::IsMember({"charges", "holds", "runs", "session"}));
    app.add_option("--agents", agents);
    app.add_option("--org", org);
    app.add_option("--clients", loop.clients);
    app.add_option("--seconds", loop.seconds);
    CLI11_PARSE(app, argc, argv);
    loop.org = core::OrgId(org);

    std::string problem;
    const auto target = bench::NodeTarget::open(uri, problem);
    if (!target) {
        fmt::print(stderr, "nodes_main: {}\n", problem);
        return 1;
    }
    bench::Ids ids;
    const auto workload = workload_of(load, agents);
    if (bench::run_once(*target, {core::CreateOrg{"bench"}}, ids, loop.org) > 0 ||
        bench::run_once(*target, workload->setup(ids), ids, loop.org) > 0) {
        fmt::print(stderr, "nodes_main: the setup was refused\n");
        return 1;
    }
    fmt::print("ready\n");
    std::fflush(stdout);
    std::string line;
    std::getline(std::cin, line);

    const std::int64_t trips = target->round_trips();
    const bench::LoopResult result = bench::run_loop(*target, *workload, ids, loop);
    const auto batches = static_cast<double>(target->batches());
    fmt::print(
        R"({{"rate":{:.0f},"p50_ms":{:.3f},"p99_ms":{:.3f},"answered":{},"refused":{},"batch":{:.1f},"batches":{:.0f},"trips":{},"cpu_us":{:.2f}}})"
        "\n",
        result.rate(), static_cast<double>(result.latency.quantile(0.5)) * 1e-6,
        static_cast<double>(result.latency.quantile(0.99)) * 1e-6, result.answered, result.refused, result.batch_mean,
        batches, target->round_trips() - trips,
        result.cpu_us / static_cast<double>(std::max<std::uint64_t>(result.commands, 1)));
    return result.refused == 0 ? 0 : 1;
}
