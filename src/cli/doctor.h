// `interlock doctor`: looks at everything that keeps people from getting to work, and says what to do about it.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"

namespace interlock::cli {

struct DoctorFinding {
    enum class Level { ok, warn, fail };
    Level level;
    std::string what;
    std::string detail;
    std::string advice = {};  // What to do; empty where all is well.
};

DoctorFinding check_data_dir(const std::string& data_dir);
DoctorFinding check_key_file(const std::string& data_dir);
DoctorFinding check_disk_space(const std::string& data_dir);
DoctorFinding check_open_files();
// `date` is the server's Date header: "Sun, 15 Nov 2026 09:00:00 GMT".
DoctorFinding check_clock(const std::string& date, Instant now);
// The server itself, and what only it can tell: its version, our key, its clock, and what it finds in itself.
std::vector<DoctorFinding> check_server(const Context& context);

ExitCode doctor(Context& context, const Invocation& invocation);

}  // namespace interlock::cli
