// What a run of the benchmarks found, and how it is shown: an aligned table for people, one JSON object for programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace interlock::bench {

// One line of the table: one workload with one number of clients.
struct Row {
    std::string name;
    bool peer = false;  // Not ours: the naive program or the bare log, measured beside the row above.
    std::size_t clients = 0;
    double rate = 0;  // Commands per second, the median of the rounds.
    double p50_ms = 0;
    double p99_ms = 0;
    double batch_mean = 0;
    double cpu_us = 0;         // Per command, the whole process.
    double engine_cpu_us = 0;  // Of it, everything but the clients' thread.
    double times_naive = 0;    // Our rate by the naive program's; 0: not compared.
    double times_log = 0;      // Our rate by that of the bare log with the same commands.
};

enum class Sense { at_least, at_most };

// What was asked of the numbers.
struct Goal {
    std::string name;
    double wanted = 0;
    double found = 0;
    Sense sense = Sense::at_least;
    std::string unit;

    bool met() const { return sense == Sense::at_least ? found >= wanted : found <= wanted; }
};

struct Fact {
    std::string name;
    double value = 0;
    std::string unit;
};

struct Report {
    std::string file_system;
    double sync_ms = 0;
    unsigned cores = 0;
    std::vector<Row> rows;
    std::vector<Fact> facts;
    std::vector<Goal> goals;
    std::vector<std::string> problems;  // Anything here makes the numbers worthless.
};

std::string as_text(const Report& report);
std::string as_json(const Report& report);

// One line on standard error that is overwritten by the next, where that is a terminal.
class Progress {
 public:
    Progress();
    ~Progress() { clear(); }
    void show(std::string_view what);
    void clear();

 private:
    bool terminal_;
};

}  // namespace interlock::bench
