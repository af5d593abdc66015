#include "cli/doctor.h"

#include <sys/stat.h>

#include <fstream>

#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

using Level = DoctorFinding::Level;

class DoctorTest : public CliTest {
 protected:
    DoctorTest() {
        std::ofstream(directory() + "/admin.key") << "ilk_a_b\n";
        chmod((directory() + "/admin.key").c_str(), 0600);
        context.settings.data_dir = directory();
    }
    void answers_status(const std::string& version, const std::string& date) {
        server.answers(200, R"({"version":")" + version + R"("})", {{"Date", date}});
    }
};

TEST_F(DoctorTest, a_healthy_machine_ends_well) {
    answers_status("0.1.0", "Sun, 15 Nov 2026 12:00:01 GMT");

    EXPECT_EQ(run({"doctor"}), ExitCode::ok);

    EXPECT_EQ(out.text().find("fail"), std::string::npos) << out.text();
    EXPECT_NE(out.text().find("ok    version         0.1.0"), std::string::npos) << out.text();
}

TEST_F(DoctorTest, what_others_can_read_fails_with_the_command_that_helps) {
    chmod(directory().c_str(), 0755);
    chmod((directory() + "/admin.key").c_str(), 0644);

    EXPECT_EQ(check_data_dir(directory()).level, Level::fail);
    EXPECT_EQ(check_data_dir(directory()).advice, "chmod 700 " + directory());
    EXPECT_EQ(check_key_file(directory()).level, Level::fail);
    EXPECT_TRUE(check_key_file(directory()).advice.starts_with("chmod 600 "));
}

TEST_F(DoctorTest, what_is_not_there_yet_is_a_warning) {
    EXPECT_EQ(check_data_dir(directory() + "/none").level, Level::warn);
    EXPECT_EQ(check_key_file(directory() + "/none").level, Level::ok) << "none is needed";
    EXPECT_NE(check_disk_space(directory() + "/none/deeper").detail.find("free at"), std::string::npos);
}

TEST_F(DoctorTest, another_version_is_a_warning) {
    answers_status("0.2.0", "Sun, 15 Nov 2026 12:00:01 GMT");

    EXPECT_EQ(run({"doctor"}), ExitCode::ok);

    EXPECT_NE(out.text().find("the server has version 0.2.0, this command 0.1.0"), std::string::npos);
}

TEST_F(DoctorTest, clocks_that_differ_are_told_which_way) {
    EXPECT_EQ(check_clock("Sun, 15 Nov 2026 12:00:03 GMT", noon).level, Level::ok);
    EXPECT_EQ(check_clock("Sun, 15 Nov 2026 12:05:00 GMT", noon).detail, "5 min behind the server's");
    EXPECT_EQ(check_clock("Sun, 15 Nov 2026 11:55:00 GMT", noon).detail, "5 min ahead of the server's");
    EXPECT_EQ(check_clock("", noon).level, Level::warn);
}

TEST_F(DoctorTest, a_key_that_is_not_taken_fails) {
    server.answers(401, R"({"code":"unauthorized","detail":"The key is not known here."})");

    EXPECT_EQ(run({"doctor"}), ExitCode::refused);

    EXPECT_NE(out.text().find("fail  key"), std::string::npos) << out.text();
}

TEST_F(DoctorTest, something_else_at_the_address_fails) {
    server.answers(200, "{}");

    EXPECT_EQ(run({"doctor"}), ExitCode::refused);

    EXPECT_NE(out.text().find("not Interlock listens"), std::string::npos);
}

TEST_F(DoctorTest, without_a_server_the_port_is_looked_at) {
    context.environment.url = "";
    server.answers(404, "<html>");

    EXPECT_EQ(run({"doctor"}), ExitCode::refused);

    EXPECT_EQ(server.dialled.back(), "http://127.0.0.1:4100");
    EXPECT_NE(out.text().find("another program listens"), std::string::npos) << out.text();
}

TEST_F(DoctorTest, what_the_server_finds_in_itself_is_told_and_nothing_twice) {
    answers_status("0.1.0", "Sun, 15 Nov 2026 12:00:01 GMT");
    server.answers(200, R"({"ok":false,"items":[{"level":"ok","what":"disk space","detail":"9 GB free","do":""},
        {"level":"fail","what":"promises","detail":"3 violations","do":"interlock verify"},
        {"level":"ok","what":"version","detail":"the same again","do":""}]})");

    EXPECT_EQ(run({"doctor"}), ExitCode::refused);

    EXPECT_NE(out.text().find("ok    disk space      9 GB free"), std::string::npos) << out.text();
    EXPECT_EQ(out.text().find("free at"), std::string::npos) << "the server knows its own disk";
    EXPECT_NE(out.text().find("fail  promises        3 violations"), std::string::npos) << out.text();
    EXPECT_NE(out.text().find("-> interlock verify"), std::string::npos);
    EXPECT_EQ(out.text().find("the same again"), std::string::npos);
    EXPECT_NE(out.text().find("open files"), std::string::npos) << "the server did not say";
}

TEST_F(DoctorTest, for_programs_there_is_json) {
    context.settings.json = true;
    answers_status("0.1.0", "Sun, 15 Nov 2026 12:00:01 GMT");

    run({"doctor"});

    EXPECT_TRUE(out.text().starts_with(R"({"ok":true,"checks":[{"level":"ok","what":"data directory")")) << out.text();
}

}  // namespace
}  // namespace interlock::cli
