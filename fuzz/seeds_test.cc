// Every fuzzer on its seeds and on mutations of them, as a part of ./dev test. The mutations are always the same ones.
//
// A failing input ends the process. It is then in the file that the last line names; `build/fuzz/fuzz_NAME FILE` runs
// it again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzers.h"  // Written by CMake: the functions of all fuzzers, and their names.

namespace {

namespace fs = std::filesystem;

constexpr int mutations_per_fuzzer = 1'000;
constexpr std::size_t input_bytes_max = 8'192;
const fs::path seeds_dir = INTERLOCK_SEEDS_DIR;
const std::string found_prefix = INTERLOCK_FOUND_PREFIX;

struct Seed {
    std::string name;
    std::string bytes;
};

// In order of their names, so that the mutations are the same ones everywhere.
std::vector<Seed> seeds_of(std::string_view fuzzer) {
    std::vector<Seed> seeds;
    std::error_code not_there;
    for (const auto& entry : fs::directory_iterator(seeds_dir / fuzzer, not_there)) {
        std::ifstream file(entry.path(), std::ios::binary);
        seeds.push_back({entry.path().filename(), {std::istreambuf_iterator<char>(file), {}}});
    }
    std::ranges::sort(seeds, {}, &Seed::name);
    return seeds;
}

// ---- the input under way --------------------------------------------------------------------------------------------

std::string found_path;
const std::string* input = nullptr;

void say(const std::string& text) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

// Only calls that a signal handler may make.
void keep_input(int signal_number) {
    const int file = open(found_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file >= 0 && write(file, input->data(), input->size()) >= 0) {
        say("the input is in ");
        say(found_path);
        say("\n");
    }
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

class RunningFuzzer {
 public:
    explicit RunningFuzzer(const Fuzzer& fuzzer) : run_(fuzzer.run) {
        found_path = found_prefix + std::string(fuzzer.name);
        for (const int number : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(number, keep_input);
    }
    ~RunningFuzzer() {
        for (const int number : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(number, SIG_DFL);
    }
    // An exception ends the process, too: the parsers throw none.
    void run(const std::string& bytes) const noexcept {
        input = &bytes;
        EXPECT_EQ(run_(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    }

 private:
    int (*run_)(const std::uint8_t*, std::size_t);
};

// ---- mutations ------------------------------------------------------------------------------------------------------

class Mutator {
 public:
    explicit Mutator(const std::vector<Seed>& seeds) : seeds_(seeds) {}

    std::string next() {
        std::string bytes = seeds_[below(seeds_.size())].bytes;
        for (std::size_t left = 1 + below(4); left > 0; --left) mutate(bytes);
        bytes.resize(std::min(bytes.size(), input_bytes_max));
        return bytes;
    }

 private:
    std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

    void mutate(std::string& bytes) {
        const std::size_t at = below(bytes.size() + 1);
        const std::size_t length = std::min(below(16), bytes.size() - at);
        switch (below(6)) {
            case 0:
                if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
                break;
            case 1:
                if (at < bytes.size()) bytes[at] = static_cast<char>(below(256));
                break;
            case 2:
                bytes.erase(at, length);
                break;
            case 3:
                bytes.insert(at, bytes.substr(at, length));
                break;
            case 4:
                bytes.insert(at, 1, "\r\n\t \"\\{}[]:,0/%-\x7f\xff"[below(18)]);
                break;
            default: {
                const std::string& other = seeds_[below(seeds_.size())].bytes;
                bytes.replace(at, length, other.substr(below(other.size()), below(64)));
            }
        }
    }

    const std::vector<Seed>& seeds_;
    std::mt19937_64 random_{1};
};

class FuzzSeeds : public testing::TestWithParam<Fuzzer> {};

}  // namespace

TEST_P(FuzzSeeds, pass_and_so_do_mutations_of_them) {
    const auto seeds = seeds_of(GetParam().name);
    ASSERT_FALSE(seeds.empty()) << "put a valid input into fuzz/seeds/" << GetParam().name;
    const RunningFuzzer fuzzer(GetParam());

    for (const Seed& seed : seeds) fuzzer.run(seed.bytes);
    Mutator mutator(seeds);
    for (int i = 0; i < mutations_per_fuzzer; ++i) fuzzer.run(mutator.next());
}

INSTANTIATE_TEST_SUITE_P(All, FuzzSeeds, testing::ValuesIn(all_fuzzers),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(FuzzSeedFolders, belong_to_a_fuzzer) {
    for (const auto& entry : fs::directory_iterator(seeds_dir)) {
        const std::string name = entry.path().filename();
        EXPECT_NE(std::ranges::find(all_fuzzers, name, &Fuzzer::name), std::end(all_fuzzers))
            << "fuzz/seeds/" << name << " has no fuzz/fuzz_" << name << ".cc";
    }
}
