#include "bench/bare_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/codec.h"

namespace interlock::bench {

std::unique_ptr<BareLog> BareLog::open(const std::string& file, std::string& problem) {
    const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    // Zeros are written out, not only reserved: the first write into a reserved block still changes the file system's
    // tables.
    const std::string zeros(1u << 20, '\0');
    bool ready = opened >= 0;
    for (std::size_t at = 0; ready && at < bytes_max; at += zeros.size()) {
        ready =
            ::pwrite(opened, zeros.data(), zeros.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(zeros.size());
    }
    if (!ready || ::fsync(opened) != 0) {
        problem = std::strerror(errno);
        if (opened >= 0) ::close(opened);
        return nullptr;
    }
    return std::unique_ptr<BareLog>(new BareLog(opened));
}

BareLog::~BareLog() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_one();
    thread_.join();
    ::close(file_);
}

void BareLog::submit(std::vector<engine::Submission> submissions) {
    bool was_empty = false;
    {
        const std::lock_guard lock(mutex_);
        was_empty = queue_.empty();
        if (was_empty) {
            queue_ = std::move(submissions);
        } else {
            queue_.insert(queue_.end(), std::move_iterator(submissions.begin()), std::move_iterator(submissions.end()));
        }
    }
    if (was_empty) work_.notify_one();
}

std::uint64_t BareLog::batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
}

void BareLog::run() {
    std::string bytes;
    std::vector<engine::Submission> batch;
    while (true) {
        // 1. Take.
        batch.clear();
        {
            std::unique_lock lock(mutex_);
            work_.wait(lock, [&] { return !queue_.empty() || stopping_; });
            if (queue_.empty()) return;
            batch.swap(queue_);
            ++batches_;
        }

        // 2. Encode.
        bytes.clear();
        Encoder encoder(bytes);
        for (const engine::Submission& submission : batch) {
            encoder.put(submission.command.org);
            encoder.put(submission.command.key);
            encoder.put(submission.command.body);
        }

        // 3. Write.
        const bool written = write(bytes);

        // 4. Answer.
        for (const engine::Submission& submission : batch) {
            if (written) {
                submission.on_answer(engine::CommandResult{});
            } else {
                submission.on_answer(fail(engine::SubmitError::not_committed));
            }
        }
    }
}

bool BareLog::write(const std::string& bytes) {
    if (bytes.size() > bytes_max) return false;
    if (offset_ + bytes.size() > bytes_max) offset_ = 0;
    const ssize_t wrote = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset_));
    if (wrote != static_cast<ssize_t>(bytes.size())) return false;
    offset_ += bytes.size();
    return ::fdatasync(file_) == 0;
}

}  // namespace interlock::bench
