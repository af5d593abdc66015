#include "shim/output_log.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace interlock::shim {

OutputLog::OutputLog(const std::string& path, std::int64_t bytes_max)
    // O_NOFOLLOW and S_ISREG: a link or a FIFO that somebody put there would lead the output elsewhere, or hold us up.
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)), bytes_max_(bytes_max) {
    struct stat status{};
    bool usable = file_ && fstat(file_.get(), &status) == 0;
    if (usable && !S_ISREG(status.st_mode)) errno = EINVAL, usable = false;
    if (!usable) {
        why_dropped_ = std::strerror(errno);
        file_.reset();
        return;
    }
    end_ = status.st_size;
    hole_begin_ = hole_end_ = whole_blocks(bytes_max_ / 4);
}

void OutputLog::add(std::string_view bytes) {
    // Small parts for a small bound, so that no part is larger than the room that can be made for it.
    const std::size_t part_max = bytes_max_ > 0 ? static_cast<std::size_t>(bytes_max_ / 8 + 1) : bytes.size();
    while (!bytes.empty()) {
        const std::string_view part = bytes.substr(0, part_max);
        bytes.remove_prefix(part.size());
        // What was lost is told at the place where it is missing, together with what comes next or not yet.
        const bool tell = untold_ > 0 && can_punch_;
        if (tell ? write("\n[interlock: " + told(untold_) + "]\n" + std::string(part)) : write(part)) {
            untold_ = 0;
        } else {
            dropped_ += static_cast<std::int64_t>(part.size());
            untold_ += static_cast<std::int64_t>(part.size());
        }
    }
}

std::string OutputLog::lost() const { return dropped_ == 0 ? "" : told(dropped_); }

std::string OutputLog::told(std::int64_t dropped) const {
    return std::to_string(dropped) + " bytes of output could not be kept: " + why_dropped_;
}

// All or nothing, seen from outside: what was written of a part that did not fit is written over by the next.
bool OutputLog::write(std::string_view bytes) {
    if (!file_ || !make_room(static_cast<std::int64_t>(bytes.size()))) return false;
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t written =
            pwrite(file_.get(), bytes.data() + done, bytes.size() - done, end_ + static_cast<std::int64_t>(done));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            why_dropped_ = std::strerror(errno);
            // Nobody shall read half of a part as if it were all of it.
            static_cast<void>(ftruncate(file_.get(), end_));
            return false;
        }
        done += static_cast<std::size_t>(written);
    }
    end_ += static_cast<std::int64_t>(bytes.size());
    return true;
}

// No file system has larger ones. Where the bound itself is not much larger, it is kept to the byte instead.
std::int64_t OutputLog::whole_blocks(std::int64_t offset) const {
    constexpr std::int64_t block_bytes = 64 << 10;
    return bytes_max_ >= 16 * block_bytes ? offset - offset % block_bytes : offset;
}

bool OutputLog::make_room(std::int64_t count) {
    if (bytes_max_ <= 0) return true;
    // In large steps, because each costs a change of the file's extents: an eighth of the bound is given up at a time.
    const std::int64_t head = hole_begin_, tail = bytes_max_ - head - bytes_max_ / 8;
    const std::int64_t kept = std::min(end_, head) + std::max<std::int64_t>(end_ - hole_end_, 0);
    if (kept + count <= bytes_max_) return true;
    // Whole blocks, so that what the file system calls a hole is exactly what was given up.
    const std::int64_t wanted_end = end_ - std::max<std::int64_t>(tail - count, 0);
    const std::int64_t new_end = std::max(hole_end_, whole_blocks(wanted_end));
    // From its beginning each time: a block is only given back by a hole that covers all of it.
    if (can_punch_ && new_end > head &&
        fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, head, new_end - head) != 0) {
        can_punch_ = false;
    }
    if (!can_punch_) {
        why_dropped_ = "the file system cannot give up the middle of a file, and the log has its bound";
        return false;
    }
    hole_end_ = new_end;
    return true;
}

}  // namespace interlock::shim
