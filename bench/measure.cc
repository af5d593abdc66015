#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/bare_log.h"
#include "bench/driver.h"
#include "bench/naive.h"
#include "bench/ours.h"

namespace interlock::bench {

namespace fs = std::filesystem;

namespace {

// The rounds of one target.
struct Rounds {
    std::vector<double> rates;
    std::vector<double> cpu_us;
    std::vector<double> engine_cpu_us;
    std::vector<double> batches;
    Histogram latency;

    void add(const LoopResult& result) {
        const auto commands = static_cast<double>(std::max<std::uint64_t>(result.commands, 1));
        rates.push_back(result.rate());
        cpu_us.push_back(result.cpu_us / commands);
        engine_cpu_us.push_back((result.cpu_us - result.driver_cpu_us) / commands);
        batches.push_back(result.batch_mean);
        latency.add(result.latency);
    }

    Row row(std::string name, std::size_t clients) const {
        return {.name = std::move(name),
                .peer = false,
                .clients = clients,
                .rate = median(rates),
                .p50_ms = static_cast<double>(latency.quantile(0.50)) * 1e-6,
                .p99_ms = static_cast<double>(latency.quantile(0.99)) * 1e-6,
                .batch_mean = median(batches),
                .cpu_us = median(cpu_us),
                .engine_cpu_us = median(engine_cpu_us)};
    }
};

// Everything that one number of clients is measured with.
class Contest {
 public:
    Contest(Report& report, const Settings& settings, const MakeWorkload& make)
        : report_(report), settings_(settings), our_load_(make()), log_load_(make()) {}

    bool open() {
        std::string problem;
        ours_ = Ours::open(store_directory().string(), ids_, problem);
        if (ours_ == nullptr) return fail_with(problem);
        if (run_once(*ours_, our_load_->setup(ids_), ids_) > 0) return fail_with("the setup was refused");
        if (settings_.alone) return true;

        log_ = BareLog::open((settings_.directory / "log").string(), problem);
        log_load_->setup(ids_);  // The log has no use for these commands, the workload may have one for making them.
        return log_ != nullptr || fail_with(problem);
    }

    void round(std::size_t clients) {
        if (!settings_.alone) {
            const NaiveResult naive = run_naive((settings_.directory / "naive.db").string(), settings_.seconds / 2);
            if (!naive.problem.empty()) fail_with("the naive program: " + naive.problem);
            naive_.rates.push_back(naive.rate());
            naive_.latency.add(naive.latency);
            loop(*log_, *log_load_, clients, log_rounds_);
        }
        loop(*ours_, *our_load_, clients, our_rounds_);
    }

    void close(std::size_t clients, Peers peers) {
        check_rows(*ours_, *our_load_, report_.problems);
        const double naive = median(naive_.rates);
        const double log = median(log_rounds_.rates);
        Row row = our_rounds_.row(std::string(our_load_->name()), clients);
        row.times_naive = naive > 0 ? row.rate / naive : 0;
        row.times_log = log > 0 ? row.rate / log : 0;
        report_.rows.push_back(row);
        if (peers == Peers::shown && !settings_.alone) {
            Row log_row = log_rounds_.row("bare log", clients);
            log_row.peer = true;
            log_row.times_naive = naive > 0 ? log / naive : 0;
            report_.rows.push_back(log_row);
            report_.rows.push_back({.name = "naive",
                                    .peer = true,
                                    .clients = 1,
                                    .rate = naive,
                                    .p50_ms = static_cast<double>(naive_.latency.quantile(0.50)) * 1e-6,
                                    .p99_ms = static_cast<double>(naive_.latency.quantile(0.99)) * 1e-6,
                                    .batch_mean = 1});
        }
        ours_.reset();
        std::error_code ignored;
        fs::remove_all(store_directory(), ignored);
    }

 private:
    fs::path store_directory() const { return settings_.directory / "store"; }

    bool fail_with(std::string problem) {
        report_.problems.push_back(fmt::format("{}: {}", our_load_->name(), problem));
        return false;
    }

    void loop(Target& target, Workload& workload, std::size_t clients, Rounds& rounds) {
        const LoopResult result = run_loop(target, workload, ids_,
                                           {.clients = clients,
                                            .seconds = settings_.seconds,
                                            .commands_max = settings_.commands,
                                            .in_step = settings_.in_step});
        if (result.refused > 0) fail_with(fmt::format("{} commands were refused", result.refused));
        rounds.add(result);
    }

    Report& report_;
    const Settings& settings_;
    Ids ids_;
    std::unique_ptr<Workload> our_load_;
    std::unique_ptr<Workload> log_load_;
    std::unique_ptr<Ours> ours_;
    std::unique_ptr<BareLog> log_;
    Rounds naive_;
    Rounds log_rounds_;
    Rounds our_rounds_;
};

}  // namespace

void measure(Report& report, Progress& progress, const Settings& settings, const MakeWorkload& make, Peers peers) {
    for (const std::size_t clients : settings.clients) {
        Contest contest(report, settings, make);
        if (!contest.open()) return;
        for (int round = 0; round < settings.rounds; ++round) {
            progress.show(
                fmt::format("{}, {} clients, round {} of {}", make()->name(), clients, round + 1, settings.rounds));
            contest.round(clients);
        }
        contest.close(clients, peers);
    }
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace interlock::bench
