#include "bench/place.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "bench/histogram.h"
#include "bench/loop_clock.h"

namespace interlock::bench {

namespace fs = std::filesystem;

std::optional<ScratchDirectory> ScratchDirectory::make(const fs::path& parent, std::string& problem) {
    std::error_code error;
    fs::create_directories(parent, error);
    std::string name = (fs::absolute(parent) / "interlock-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
        problem = fmt::format("cannot make a directory in {}: {}", parent.string(), std::strerror(errno));
        return std::nullopt;
    }
    return ScratchDirectory(fs::path(name));
}

ScratchDirectory::~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

std::string file_system_of(const fs::path& path) {
    constexpr long xfs_magic = 0x58465342;
    constexpr long zfs_magic = 0x2fc12fc1;
    struct statfs about{};
    if (statfs(path.c_str(), &about) != 0) return "unknown";
    switch (static_cast<long>(about.f_type)) {
        case EXT4_SUPER_MAGIC:
            return "ext4";
        case xfs_magic:
            return "xfs";
        case zfs_magic:
            return "zfs";
        case BTRFS_SUPER_MAGIC:
            return "btrfs";
        case OVERLAYFS_SUPER_MAGIC:
            return "overlayfs";
        case TMPFS_MAGIC:
            return "tmpfs";
        case NFS_SUPER_MAGIC:
            return "nfs";
        default:
            return fmt::format("type 0x{:x}", about.f_type);
    }
}

std::optional<double> measure_sync_ms(const fs::path& directory) {
    constexpr int times = 300;
    constexpr std::size_t block = 4096;
    const fs::path name = directory / "sync-probe";
    const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return std::nullopt;

    std::string bytes(block, '\0');
    const auto write_at = [&](int number) {
        return ::pwrite(file, bytes.data(), block, static_cast<off_t>(number) * static_cast<off_t>(block)) ==
               static_cast<ssize_t>(block);
    };
    bool ok = true;
    for (int i = 0; ok && i < times; ++i) ok = write_at(i);
    ok = ok && ::fsync(file) == 0;

    Histogram latency;
    bytes.assign(block, 'x');
    for (int i = 0; ok && i < times; ++i) {
        const auto before = Clock::now();
        ok = write_at(i) && ::fdatasync(file) == 0;
        latency.add(nanos_between(before, Clock::now()));
    }
    ::close(file);
    std::error_code ignored;
    fs::remove(name, ignored);
    if (!ok) return std::nullopt;
    return static_cast<double>(latency.quantile(0.5)) * 1e-6;
}

std::uint64_t bytes_in(const fs::path& directory) {
    std::uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
        if (entry.is_regular_file(error)) bytes += entry.file_size(error);
    }
    return bytes;
}

}  // namespace interlock::bench
