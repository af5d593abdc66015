// A disk in memory, behind what an operating system shows of it: files, a cache that is written back when it pleases,
// and sync. It keeps a log of everything that was done to it, from which power_loss.h makes what a loss of power would
// leave, and it can fail on request.
//
//   (1) Reads see every write that went before, whether synced or not: what is lost in a crash is never missed before.
//   (2) The log has every change in the order in which it was asked for. Following it from the image the disk was
//       mounted with gives the disk's content.
//   (3) A call that fails changes nothing, but for the faults whose name says otherwise, and the log tells the truth
//       about those too.
//
// One thread at a time. Locks and shared memory are not the disk's: see power_loss_vfs.h.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace interlock::crash {

// A file, whatever its name is now. A name that is removed and made again is another file.
using FileNumber = std::uint32_t;

// Names and contents: what a disk is mounted with, and what a loss of power leaves.
using Image = std::map<std::string, std::string>;

struct Change {
    enum class Kind {
        create,          // A name for a new, empty file.
        remove,          // The name goes; the file stays for those who have it open.
        write,           // `bytes` at `offset`.
        truncate,        // To `offset` bytes.
        sync,            // The file's bytes are on the medium.
        sync_lost,       // The system gave up writing them back, and takes them for clean: they are not on the medium.
        sync_directory,  // Every name made or removed so far is on the medium.
    };
    Kind kind;
    FileNumber file = 0;
    std::int64_t offset = 0;
    std::string bytes = {};
    std::string name = {};
};

// What can be asked of a disk, as far as it can fail.
enum class Call { open, read, write, truncate, sync, remove, size };
constexpr std::size_t call_kinds = 7;

enum class FaultKind {
    open_error,
    read_error,
    write_error,
    write_torn,  // Half of the bytes are written before it fails.
    disk_full,   // To writes.
    truncate_error,
    sync_error_kept,   // It fails, and the bytes are on the medium all the same.
    sync_error_dirty,  // It fails; the bytes wait for the next sync.
    sync_error_lost,   // It fails; the bytes can still be read, but will never be written. What Linux does.
    remove_error,
    size_error,
};
constexpr std::size_t fault_kinds = 11;
Call call_of(FaultKind kind);
std::string_view to_text(FaultKind kind);

struct Fault {
    FaultKind kind;
    std::uint64_t at = 0;  // The how-manieth call of its kind fails, counted from 0 since the fault was set.
    bool lasting = false;  // All later ones of the kind too, until the fault is cleared.
};

enum class Io { ok, short_read, failed, full };

class Disk {
 public:
    Disk() = default;
    explicit Disk(const Image& image);

    // What files are opened for: the first sync of a new journal also syncs the directory, as SQLite's own unix layer
    // does, and nothing else but removing does.
    struct OpenFor {
        bool create = false;
        bool journal = false;
    };
    Io open(const std::string& name, OpenFor what, FileNumber& file);
    FileNumber open_unnamed();  // For temporary files. Not logged: nobody can find one after a crash.

    Io read(FileNumber file, std::int64_t offset, std::span<char> into);
    Io write(FileNumber file, std::int64_t offset, std::string_view bytes);
    Io truncate(FileNumber file, std::int64_t size);
    Io sync(FileNumber file);
    Io size(FileNumber file, std::int64_t& size);
    Io remove(const std::string& name, bool sync_directory);
    bool exists(const std::string& name) const { return names_.contains(name); }
    bool exists_and_is_not_empty(const std::string& name) const;

    const std::vector<Change>& log() const { return log_; }
    Image contents() const;

    void set_fault(Fault fault);
    void clear_fault() { fault_.reset(); }
    bool fault_has_struck() const { return struck_; }
    // How often each kind of call was made since the last set_fault() or the beginning.
    std::uint64_t calls(Call call) const { return calls_[static_cast<std::size_t>(call)]; }

 private:
    struct File {
        std::string bytes;
        bool logged = true;
        bool syncs_directory = false;  // At its next sync.
    };
    // Counts the call; the fault that strikes it, if any.
    std::optional<FaultKind> count(Call call);
    void record(FileNumber file, Change change);
    static void put(std::string& bytes, std::int64_t offset, std::string_view what);

    std::vector<File> files_;
    std::map<std::string, FileNumber> names_;
    std::vector<Change> log_;
    std::optional<Fault> fault_;
    bool struck_ = false;
    std::uint64_t calls_[call_kinds] = {};
};

}  // namespace interlock::crash
