#include "cli/files.h"

#include <fcntl.h>
#include <fmt/format.h>

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

std::string read_all(std::FILE* in) {
    std::string text;
    std::array<char, 1 << 16> piece;
    while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), in)) text.append(piece.data(), got);
    return text;
}

}  // namespace interlock::cli
