// What a loss of power leaves of a disk.
//
// A medium follows a disk's log. It knows what is certainly there (everything up to each file's last sync) and what may
// be there (everything since), and makes images of how that can have ended:
//
//   dropped     nothing since the last sync is there
//   kept        all of it is there
//   torn        of each file a first part is there, and the write after it only up to a sector or to any byte
//   reordered   any of the sectors written since are there, in whatever order they were written
//   garbage     the same, and some sectors hold neither the old nor the new bytes
//
// Names: a file that was made or removed since the last sync of the directory may be there or not, in the same five
// ways. A sync of a file's data also brings its size, as fdatasync does wherever the size is needed to read the data;
// the size of a file that grew without a sync may be the old one, the new one with zeros, or something between.
//
// Sectors are 512 bytes, the smallest a disk writes in one piece: whatever a bigger sector keeps together, a test that
// cuts finer cuts too. Whether bytes beside a write can suffer is the medium's `Overwrite`:
//   powersafe   only the bytes that were written can be wrong. It is what SQLite takes every Linux disk for, so it is
//               what its unix layer says, and what decides how the log is written in production.
//   fragile     the whole sector can be wrong, sectors being 4,096 bytes. SQLite then pads the log after each commit.
#pragma once

#include <string_view>

#include "crash/disk.h"
#include "crash/random.h"

namespace interlock::crash {

enum class Loss { dropped, kept, torn, reordered, garbage };
constexpr std::size_t loss_kinds = 5;
std::string_view to_text(Loss loss);

enum class Overwrite { powersafe, fragile };

class Medium {
 public:
    Medium(const Image& at_first, Overwrite overwrite);

    // `change` must stay where it is: it is remembered until a sync.
    void follow(const Change& change);
    Image after(Loss loss, Random& random) const;

    // Grows whenever what is certainly there changes.
    std::uint64_t syncs() const { return syncs_; }
    bool has_unsynced() const;

 private:
    struct File {
        std::string synced;
        std::vector<const Change*> since;
    };
    using Names = std::map<std::string, FileNumber>;

    Names names_after(Loss loss, Random& random) const;
    std::string bytes_after(const File& file, Loss loss, Random& random) const;
    std::string torn(const File& file, Random& random) const;
    std::string scattered(const File& file, Random& random, bool with_garbage) const;

    const std::size_t sector_;
    const Overwrite overwrite_;
    std::vector<File> files_;
    Names synced_names_;
    std::vector<const Change*> names_since_;
    std::uint64_t syncs_ = 0;
};

}  // namespace interlock::crash
