// Where the benchmarks write, and what can be said about that disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace interlock::bench {

// A new directory under `parent`, taken away again at the end.
class ScratchDirectory {
 public:
    static std::optional<ScratchDirectory> make(const std::filesystem::path& parent, std::string& problem);
    ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
    ScratchDirectory& operator=(ScratchDirectory&&) = delete;
    ~ScratchDirectory();

    const std::filesystem::path& path() const { return path_; }

 private:
    explicit ScratchDirectory(std::filesystem::path path) : path_(std::move(path)) {}
    std::filesystem::path path_;
};

std::string file_system_of(const std::filesystem::path& path);

// The median of some hundred fdatasyncs of 4 KB in a file that has its length already, in milliseconds.
std::optional<double> measure_sync_ms(const std::filesystem::path& directory);

std::uint64_t bytes_in(const std::filesystem::path& directory);

}  // namespace interlock::bench
