#include "cli/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace interlock::cli {

Outcome<std::FILE*> make_file(const std::string& path) {
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    std::FILE* file = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
    if (file != nullptr) return file;
    return fail(bad_usage(fmt::format("cannot make the file {}: {}", path, std::strerror(errno)),
                          "an existing file is never written over"));
}

Result<std::FILE*, std::string> open_regular_file(const std::string& path, Links links) {
    // Without O_NONBLOCK the opening itself would wait for the other end of a pipe.
    const int descriptor =
        open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (links == Links::refuse ? O_NOFOLLOW : 0));
    if (descriptor < 0) {
        if (errno == ELOOP && links == Links::refuse) return fail(std::string("it is a symbolic link"));
        return fail(std::string(errno == ENXIO ? "it is not a regular file" : std::strerror(errno)));
    }
    struct stat status = {};
    std::FILE* file = nullptr;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) file = fdopen(descriptor, "r");
    if (file != nullptr) return file;
    close(descriptor);
    return fail(std::string(S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file"));
}

std::string read_all(std::FILE* in) {
    std::string text;
    std::array<char, 1 << 16> piece;
    while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), in)) text.append(piece.data(), got);
    return text;
}

}  // namespace interlock::cli
