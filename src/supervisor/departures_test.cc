#include "supervisor/departures.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "shim/process.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

// Start times are counted in hundredths of a second, and processes of one tick cannot be told apart.
constexpr auto longer_than_a_tick = 30ms;

class DeparturesTest : public testing::Test {
 protected:
    DeparturesTest() {
        std::string pattern = std::filesystem::canonical(testing::TempDir()).string() + "/departures_XXXXXX";
        directory = ::mkdtemp(pattern.data());
    }
    ~DeparturesTest() override {
        for (const pid_t pid : sleepers) {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, nullptr, 0);
        }
        std::filesystem::remove_all(directory);
    }

    // In a session of its own, which its parent, this test, is not part of.
    pid_t sleeper(const std::string& where, std::string variable = "NONE=1") {
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::setsid();
            char* const variables[] = {variable.data(), nullptr};
            char* const words[] = {const_cast<char*>("sleep"), const_cast<char*>("1000"), nullptr};
            if (::chdir(where.c_str()) == 0) ::execve("/bin/sleep", words, variables);
            ::_exit(127);
        }
        sleepers.push_back(pid);
        while (std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe").filename() ==
               "supervisor_tests") {
            std::this_thread::sleep_for(1ms);
        }
        return pid;
    }
    Departure departure(pid_t main) const {
        return {.run = "run_1", .began = shim::start_time(main), .directories = {directory}};
    }
    static bool has(const std::vector<ProcessInside>& processes, pid_t pid) {
        return std::ranges::find(processes, pid, &ProcessInside::pid) != processes.end();
    }

    std::string directory;
    std::vector<pid_t> sleepers;
};

TEST_F(DeparturesTest, only_what_began_after_the_run_and_is_in_its_directory_is_named) {
    const pid_t before = sleeper(directory);
    std::this_thread::sleep_for(longer_than_a_tick);
    const pid_t main = sleeper("/");
    const pid_t inside = sleeper(directory);
    const pid_t elsewhere = sleeper("/");

    const Remains remains = look_for_remains({departure(main)}, {}).front();

    for (const auto* kind : {&remains.own, &remains.orphans, &remains.others}) {
        EXPECT_FALSE(has(*kind, before));
        EXPECT_FALSE(has(*kind, elsewhere));
    }
    EXPECT_TRUE(has(remains.others, inside)) << "its parent lives and is none that orphans come to";
    const auto named = std::ranges::find(remains.others, inside, &ProcessInside::pid);
    EXPECT_EQ(sentence_of(*named),
              "process " + std::to_string(inside) + " (sleep): its working directory is " + directory);
}

TEST_F(DeparturesTest, a_process_with_the_runs_id_is_its_own_wherever_it_works) {
    const pid_t main = sleeper("/");
    const pid_t own = sleeper("/", "INTERLOCK_RUN=run_1");
    const pid_t of_another = sleeper("/", "INTERLOCK_RUN=run_12");

    const auto remains = look_for_remains({departure(main), {.run = "run_12", .began = "", .directories = {}}}, {});

    EXPECT_TRUE(has(remains[0].own, own));
    EXPECT_FALSE(has(remains[0].own, of_another));
    EXPECT_TRUE(remains[1].own.empty()) << "its beginning is not known";
}

TEST_F(DeparturesTest, a_child_of_its_shim_is_the_runs_own) {
    const pid_t main = sleeper("/");
    const pid_t child = sleeper("/");
    Departure of_shim = departure(main);
    of_shim.shim = ::getpid();

    EXPECT_TRUE(has(look_for_remains({of_shim}, {}).front().own, child));
    EXPECT_FALSE(has(look_for_remains({departure(main)}, {}).front().own, child));
}

TEST_F(DeparturesTest, a_daemon_is_an_orphan_and_a_shim_is_not) {
    const pid_t main = sleeper("/");
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t starter = ::fork();
    if (starter == 0) {
        const pid_t daemon = ::fork();
        if (daemon == 0) {
            ::setsid();
            (void)!::chdir(directory.c_str());
            ::execl("/bin/sleep", "sleep", "1000", nullptr);
            ::_exit(127);
        }
        (void)!::write(ends[1], &daemon, sizeof daemon);
        ::_exit(0);
    }
    pid_t daemon = 0;
    ASSERT_EQ(::read(ends[0], &daemon, sizeof daemon), static_cast<ssize_t>(sizeof daemon));
    ::close(ends[0]);
    ::close(ends[1]);
    ::waitpid(starter, nullptr, 0);
    while (use_of_directory(daemon, directory).empty()) std::this_thread::sleep_for(1ms);

    EXPECT_TRUE(has(look_for_remains({departure(main)}, {}).front().orphans, daemon));
    EXPECT_FALSE(has(look_for_remains({departure(main)}, {daemon}).front().orphans, daemon));
    ::kill(daemon, SIGKILL);
}

}  // namespace
}  // namespace interlock::supervisor
