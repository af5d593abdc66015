// What is mounted where, as this process saw it at one moment.
//
//   (1) The ways to a directory are the paths that the mounts lead to it by, the given one aside: bind mounts, file
//       systems that are mounted twice, and both sides of an overlay, whose upper and lower directories hold the files
//       that are seen through it.
//   (2) A way is a guess by paths. A mount above it can cover it, so the caller looks where it ends.
//
//   (3) Through overlays a way leads down to layers or up from layers, and never both: two overlays on one lower
//       directory share nothing that is written.
//
// The layers of an overlay are known by the absolute paths that they were mounted by. A layer that was named by a
// relative path, or that lies in another mount namespace as the layers of a container do, is not seen.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace interlock::supervisor {

class MountTable {
 public:
    enum class Through { mounts, layers, overlays };  // The last two: down into layers, and up from them.
    struct Way {
        std::string path;
        Through through = Through::mounts;
        // Through an overlay it leads to another directory of the same files, which may not be there yet. This is the
        // length of the part of the path that must be there.
        std::size_t certain = 0;

        bool leads_through_overlay() const { return through != Through::mounts; }
    };

    // As /proc/self/mountinfo has it. Empty when no mount is listed, so that it was not read.
    static std::optional<MountTable> from(std::string text);
    static std::optional<MountTable> read();

    std::vector<Way> ways_to(const std::string& path) const;

    // Equal while nothing was mounted, moved or unmounted.
    const std::string& text() const { return text_; }

 private:
    struct Mount {
        std::string device;               // The file system.
        std::string root;                 // The directory of that file system that is mounted.
        std::string point;                // Where.
        std::vector<std::string> layers;  // Of an overlay: the directories it shows.
    };
    void add_ways_of_overlays(const Way& from, std::vector<Way>& ways) const;
    void add_ways_of_mounts(const Way& from, std::vector<Way>& ways) const;

    std::string text_;
    std::vector<Mount> mounts_;
};

}  // namespace interlock::supervisor
