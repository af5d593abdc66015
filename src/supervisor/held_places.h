// The directories of live runs, held open, so that moving one does not free what it is in.
//
//   (1) While a directory is held, no other directory gets its identity.
//   (2) follow() returns when every held directory that was moved, or that another mount leads to by now, has been
//       restated to the core: what is admitted after it meets the place where the run works. It gives up waiting for
//       file systems that do not answer.
//   (3) That nothing was moved costs one system call per directory above the held ones, and asks no file system.
//
// A directory that was removed stays claimed as it was. For any thread; look_at(), hold() and follow() read file
// systems.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/command.h"
#include "core/reply.h"
#include "supervisor/mount_table.h"
#include "supervisor/place.h"

namespace interlock::supervisor {

class HeldPlaces {
 public:
    struct Hooks {
        // Says it to the core and waits. Empty when there was no answer: it is said again the next time.
        std::function<std::optional<core::RunReply>(core::RestatePlaces)> restate;
        // Runs what may block for as long as a file system likes; false when there is no room now.
        std::function<bool(std::function<void()>)> elsewhere;
    };
    explicit HeldPlaces(Hooks hooks) : hooks_(std::move(hooks)) {}

    // The run is live: what hold() is told of it is kept from now on. A new fence forgets what was held before. Of a
    // run that is at work already, settle() waits for what is told.
    enum class Its { turn, work };
    void expect(core::RunId run, core::Fence fence, Its its);
    // Every run that was at work when this server began is expected.
    void all_are_expected();
    // The run's workspaces in the order that it claims them in; those without a descriptor are not followed. `mounts`
    // is what was mounted when they were looked at; empty: they were not. Does nothing for a run that is not expected
    // with this fence.
    void hold(core::RunId run, core::Fence fence, std::vector<OpenPlace> places, std::string mounts);
    void give_up(core::RunId run);

    // expect() and hold() for a live run that its client owns, and that may have begun: what has changed is restated
    // first. Does nothing for one that is held.
    void take_up(const core::Run& run);

    void follow();
    // follow(), when all runs that are at work are held. Before something is admitted.
    void settle();

    std::size_t size() const;

 private:
    // One of the directories from the root to a held one. Runs beside each other share it.
    struct Above {
        std::string path;
        std::string identity;
        shim::Fd directory;
    };
    struct Held {
        core::Fence fence;
        std::vector<OpenPlace> places = {};
        std::vector<std::shared_ptr<const Above>> above = {};
        bool watched = false;  // `above` and `mounts` say whether something has changed.
        bool looking = false;  // A thread looks where the places are.
        bool silent = false;   // It has not come back in time, so it is not waited for.
        bool awaited = false;  // It is at work, and hold() is on its way.
        std::string mounts = {};
    };
    using Key = std::pair<std::string, std::string>;

    using Moved = std::set<const Above*>;

    // Of the directories above held ones, those that are not where they were.
    Moved moved() const;
    void look(core::RunId run, core::Fence fence);
    void look_at(const core::Run& run);
    // What follows may not be known by the directories' names alone; then `watched` stays false.
    void watch(Held& held, std::string mounts, const std::vector<OpenPlace>& seen);
    std::shared_ptr<const Above> above_at(const std::string& path, const std::string& identity);

    const Hooks hooks_;
    mutable std::mutex mutex_;
    std::condition_variable looked_;
    std::map<core::RunId, Held> held_;
    bool all_expected_ = false;
    std::map<Key, std::weak_ptr<const Above>> above_;
};

}  // namespace interlock::supervisor
