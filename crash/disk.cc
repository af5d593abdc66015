#include "crash/disk.h"

#include <algorithm>
#include <cstring>

#include "base/ensure.h"

namespace interlock::crash {

Disk::Disk(const Image& image) {
    for (const auto& [name, bytes] : image) {
        names_.emplace(name, static_cast<FileNumber>(files_.size()));
        files_.push_back({.bytes = bytes});
    }
}

Io Disk::open(const std::string& name, OpenFor what, FileNumber& file) {
    if (count(Call::open)) return Io::failed;
    if (const auto found = names_.find(name); found != names_.end()) {
        file = found->second;
        return Io::ok;
    }
    if (!what.create) return Io::failed;
    file = static_cast<FileNumber>(files_.size());
    files_.push_back({.bytes = {}, .syncs_directory = what.journal});
    names_.emplace(name, file);
    record(file, {.kind = Change::Kind::create, .name = name});
    return Io::ok;
}

FileNumber Disk::open_unnamed() {
    files_.push_back({.bytes = {}, .logged = false});
    return static_cast<FileNumber>(files_.size() - 1);
}

Io Disk::read(FileNumber file, std::int64_t offset, std::span<char> into) {
    if (count(Call::read)) return Io::failed;
    const std::string& bytes = files_[file].bytes;
    const auto begin = std::min(static_cast<std::size_t>(offset), bytes.size());
    const auto there = std::min(into.size(), bytes.size() - begin);
    std::memcpy(into.data(), bytes.data() + begin, there);
    if (there == into.size()) return Io::ok;
    std::memset(into.data() + there, 0, into.size() - there);
    return Io::short_read;
}

Io Disk::write(FileNumber file, std::int64_t offset, std::string_view bytes) {
    const auto fault = count(Call::write);
    if (fault == FaultKind::disk_full) return Io::full;
    if (fault == FaultKind::write_error) return Io::failed;
    if (fault == FaultKind::write_torn) bytes = bytes.substr(0, bytes.size() / 2);
    put(files_[file].bytes, offset, bytes);
    record(file, {.kind = Change::Kind::write, .offset = offset, .bytes = std::string(bytes)});
    return fault ? Io::failed : Io::ok;
}

Io Disk::truncate(FileNumber file, std::int64_t size) {
    if (count(Call::truncate)) return Io::failed;
    files_[file].bytes.resize(static_cast<std::size_t>(size));
    record(file, {.kind = Change::Kind::truncate, .offset = size});
    return Io::ok;
}

Io Disk::sync(FileNumber file) {
    const auto fault = count(Call::sync);
    if (fault == FaultKind::sync_error_dirty) return Io::failed;
    record(file, {.kind = fault == FaultKind::sync_error_lost ? Change::Kind::sync_lost : Change::Kind::sync});
    if (fault) return Io::failed;
    if (files_[file].syncs_directory) record(file, {.kind = Change::Kind::sync_directory});
    files_[file].syncs_directory = false;
    return Io::ok;
}

Io Disk::size(FileNumber file, std::int64_t& size) {
    if (count(Call::size)) return Io::failed;
    size = static_cast<std::int64_t>(files_[file].bytes.size());
    return Io::ok;
}

Io Disk::remove(const std::string& name, bool sync_directory) {
    if (count(Call::remove)) return Io::failed;
    const auto found = names_.find(name);
    if (found == names_.end()) return Io::ok;
    const FileNumber file = found->second;
    names_.erase(found);
    record(file, {.kind = Change::Kind::remove, .name = name});
    if (sync_directory) record(file, {.kind = Change::Kind::sync_directory});
    return Io::ok;
}

bool Disk::exists_and_is_not_empty(const std::string& name) const {
    const auto found = names_.find(name);
    return found != names_.end() && !files_[found->second].bytes.empty();
}

Image Disk::contents() const {
    Image image;
    for (const auto& [name, file] : names_) image.emplace(name, files_[file].bytes);
    return image;
}

void Disk::set_fault(Fault fault) {
    fault_ = fault;
    struck_ = false;
    std::ranges::fill(calls_, 0);
}

std::optional<FaultKind> Disk::count(Call call) {
    const std::uint64_t before = calls_[static_cast<std::size_t>(call)]++;
    if (!fault_ || call_of(fault_->kind) != call) return std::nullopt;
    if (fault_->lasting ? before < fault_->at : before != fault_->at) return std::nullopt;
    struck_ = true;
    return fault_->kind;
}

void Disk::record(FileNumber file, Change change) {
    if (!files_[file].logged) return;
    change.file = file;
    log_.push_back(std::move(change));
}

void Disk::put(std::string& bytes, std::int64_t offset, std::string_view what) {
    const auto begin = static_cast<std::size_t>(offset);
    if (bytes.size() < begin + what.size()) bytes.resize(begin + what.size());
    std::memcpy(bytes.data() + begin, what.data(), what.size());
}

Call call_of(FaultKind kind) {
    switch (kind) {
        case FaultKind::open_error:
            return Call::open;
        case FaultKind::read_error:
            return Call::read;
        case FaultKind::write_error:
        case FaultKind::write_torn:
        case FaultKind::disk_full:
            return Call::write;
        case FaultKind::truncate_error:
            return Call::truncate;
        case FaultKind::sync_error_kept:
        case FaultKind::sync_error_dirty:
        case FaultKind::sync_error_lost:
            return Call::sync;
        case FaultKind::remove_error:
            return Call::remove;
        case FaultKind::size_error:
            return Call::size;
    }
    ensure(false, "every kind of fault strikes a kind of call");
}

std::string_view to_text(FaultKind kind) {
    switch (kind) {
        case FaultKind::open_error:
            return "open fails";
        case FaultKind::read_error:
            return "read fails";
        case FaultKind::write_error:
            return "write fails";
        case FaultKind::write_torn:
            return "write fails halfway";
        case FaultKind::disk_full:
            return "disk full";
        case FaultKind::truncate_error:
            return "truncate fails";
        case FaultKind::sync_error_kept:
            return "sync fails, data kept";
        case FaultKind::sync_error_dirty:
            return "sync fails, data dirty";
        case FaultKind::sync_error_lost:
            return "sync fails, data lost";
        case FaultKind::remove_error:
            return "remove fails";
        case FaultKind::size_error:
            return "size fails";
    }
    ensure(false, "every kind of fault has a name");
}

}  // namespace interlock::crash
