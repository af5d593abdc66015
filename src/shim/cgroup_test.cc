// The control group of a run, in a directory that has the files of one. A machine with memory and pids in version 2 is
// needed to see the kernel keep a bound; here is what it is told.
#include "shim/cgroup.h"

#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "shim/run_processes.h"

namespace interlock::shim {
namespace {

class CgroupTest : public testing::Test {
 protected:
    CgroupTest() {
        char name[] = "/tmp/cgroup_test_XXXXXX";
        directory_ = mkdtemp(name);
        mkdir(group().c_str(), 0755);
        put("cgroup.procs", "");
        put("cgroup.events", "populated 0\nfrozen 0\n");
    }
    ~CgroupTest() override { std::filesystem::remove_all(directory_); }

    std::string group() const { return directory_ + "/group"; }
    void put(const std::string& file, const std::string& text) const { std::ofstream(group() + "/" + file) << text; }
    std::string text_of(const std::string& file) const { return read_file(group() + "/" + file).value_or("none"); }

    // What keeps the run from starting; empty: nothing did, and it has ended.
    std::string run(const std::vector<std::string>& limits) const {
        ShimMessage message{"launch", "arg", "/bin/true", "home", directory_, "cgroup", group()};
        for (const std::string& limit : limits) message.insert(message.end(), {"limit", limit});
        RunProcesses holder(false);
        if (auto problem = holder.start(std::get<LaunchRequest>(read_launch(message)), {})) return *problem;
        for (std::int64_t now = 0; !holder.is_over(); ++now) {
            holder.reap(now);
            if (const auto report = holder.report_fd() >= 0 ? holder.take_report() : std::nullopt)
                report_ = report->text;
            holder.on_time(now);
            constexpr timespec moment{.tv_sec = 0, .tv_nsec = 1'000'000};
            nanosleep(&moment, nullptr);
        }
        return {};
    }

    std::string directory_;
    mutable std::string report_;
};

TEST_F(CgroupTest, bounds_of_a_run_are_written_to_its_group_before_its_process_joins) {
    for (const char* file : {"memory.max", "memory.swap.max", "pids.max", "cpu.max"}) put(file, "");

    EXPECT_EQ(run({"memory=1048576", "pids=7", "cpu_percent=150", "nofile=64"}), "");

    EXPECT_EQ(text_of("memory.max"), "1048576");
    EXPECT_EQ(text_of("memory.swap.max"), "0") << "otherwise the group would go on in swap";
    EXPECT_EQ(text_of("pids.max"), "7");
    EXPECT_EQ(text_of("cpu.max"), "150000 100000");
    EXPECT_EQ(text_of("cgroup.procs"), "0") << "the process joins by itself";
    EXPECT_EQ(report_, "");
}

TEST_F(CgroupTest, a_bound_without_its_controller_is_refused_or_holds_for_each_process) {
    EXPECT_EQ(run({"cpu_percent=50"}),
              "cannot set the limit cpu_percent=50: there is no control group of version 2 with cpu.max for the run");

    EXPECT_EQ(run({"memory=1073741824"}), "");
    EXPECT_EQ(report_, "no cgroup for limits: they hold for each process by itself");
    EXPECT_EQ(text_of("memory.max"), "none") << "no file is made";
}

TEST_F(CgroupTest, a_directory_that_is_no_control_group_is_not_used) {
    std::string problem;
    const Cgroup plain(directory_ + "/plain", problem);

    EXPECT_FALSE(plain);
    EXPECT_NE(problem.find("is not one of version 2"), std::string::npos) << problem;
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/plain")) << "what was made is removed";
    EXPECT_TRUE(plain.populated()) << "it cannot be told";
}

TEST_F(CgroupTest, a_group_is_frozen_and_killed_by_its_files) {
    put("cgroup.kill", "");
    put("cgroup.freeze", "");
    std::string problem;
    const Cgroup cgroup(group(), problem);
    ASSERT_TRUE(cgroup) << problem;

    EXPECT_TRUE(cgroup.kill());
    EXPECT_EQ(text_of("cgroup.kill"), "1");
    EXPECT_FALSE(cgroup.freeze()) << "the kernel never says that it is frozen";
    EXPECT_EQ(text_of("cgroup.freeze"), "1");
    EXPECT_TRUE(cgroup.thaw());
    EXPECT_EQ(text_of("cgroup.freeze"), "0");
    EXPECT_FALSE(cgroup.populated());
    put("cgroup.events", "populated 1\nfrozen 0\n");
    EXPECT_TRUE(cgroup.populated());
}

}  // namespace
}  // namespace interlock::shim
