#include "supervisor/place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "core/limits.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;
using core::ClaimMode;
using core::Place;
using Kind = PlaceError::Kind;

// By stat(), which place.cc never calls.
std::string identity(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path << ": " << std::strerror(errno);
    return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

Place resolved(const std::string& path) {
    const auto place = resolve_workspace(path, ClaimMode::write, "here");
    EXPECT_TRUE(place) << (place ? "" : place.error().detail);
    return place.value_or(Place{});
}

// The kind of refusal, by name so that a failure can be read; empty when there is none.
std::string refusal(const std::string& path) {
    const auto place = resolve_workspace(path, ClaimMode::write, "here");
    if (place) return "";
    EXPECT_FALSE(place.error().detail.empty());
    switch (place.error().kind) {
        case Kind::not_found:
            return "not_found";
        case Kind::not_a_directory:
            return "not_a_directory";
        case Kind::not_permitted:
            return "not_permitted";
        case Kind::too_deep:
            return "too_deep";
        case Kind::unavailable:
            return "unavailable";
    }
    return "?";
}

bool in_chain(const std::string& id, const Place& place) { return std::ranges::count(place.chain, id) == 1; }

bool contains(const Place& outer, const Place& inner) {
    return !outer.chain.empty() && in_chain(outer.chain.front(), inner);
}

int open_descriptors() {
    return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class PlaceTest : public testing::Test {
 protected:
    PlaceTest() {
        std::string name = fs::canonical(testing::TempDir()).string() + "/place_XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr) << std::strerror(errno);
        root_ = name;
        EXPECT_EQ(chmod(root_.c_str(), 0755), 0);
        working_directory_ = fs::current_path();
    }
    ~PlaceTest() override {
        fs::current_path(working_directory_);
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    std::string at(const std::string& path) const { return root_ + "/" + path; }
    std::string made(const std::string& path) const {
        fs::create_directories(at(path));
        return at(path);
    }
    static std::size_t depth(const std::string& path) {
        return static_cast<std::size_t>(std::ranges::count(path, '/'));
    }

    std::string root_;
    fs::path working_directory_;
};

TEST_F(PlaceTest, a_directory_is_its_path_and_the_identities_from_it_up_to_the_root) {
    const std::string path = made("a/b");

    const auto place = resolve_workspace(path, ClaimMode::read, "host_1");

    ASSERT_TRUE(place);
    EXPECT_EQ(place->kind, core::ClaimKind::workspace);
    EXPECT_EQ(place->host, "host_1");
    EXPECT_EQ(place->path, path);
    EXPECT_EQ(place->mode, ClaimMode::read);
    ASSERT_GE(place->chain.size(), depth(path) + 1);
    std::string ancestor = path;
    for (std::size_t i = 0; i <= depth(path); ++i) {
        EXPECT_EQ(place->chain[i], identity(ancestor.empty() ? "/" : ancestor)) << ancestor;
        ancestor.resize(ancestor.empty() ? 0 : ancestor.rfind('/'));
    }
    EXPECT_EQ(resolved(path).mode, ClaimMode::write);
}

TEST_F(PlaceTest, the_root_is_a_place_that_contains_all_others) {
    const Place root = resolved("/");

    EXPECT_EQ(root.path, "/");
    EXPECT_EQ(root.chain.front(), identity("/"));
    EXPECT_TRUE(contains(root, resolved(root_)));
}

TEST_F(PlaceTest, every_spelling_of_a_directory_is_the_same_place) {
    const Place place = resolved(made("a/b"));
    made("a/c");
    fs::create_directory_symlink("a", at("link_to_a"));
    fs::create_directory_symlink(at("link_to_a/b"), at("a/c/link_to_link"));
    fs::current_path(at("a"));

    EXPECT_EQ(resolved(at("a/b/")), place);
    EXPECT_EQ(resolved(at("a/b///")), place);
    EXPECT_EQ(resolved(at("a//b/.")), place);
    EXPECT_EQ(resolved(at("a/c/../b")), place);
    EXPECT_EQ(resolved(at("link_to_a/b")), place);
    EXPECT_EQ(resolved(at("a/c/link_to_link")), place);
    EXPECT_EQ(resolved(at("a/c/link_to_link/")), place);
    EXPECT_EQ(resolved("b"), place);
    EXPECT_EQ(resolved("./b"), place);
    EXPECT_EQ(resolved("../a/b"), place);
    EXPECT_EQ(resolved("c/../../link_to_a/b/"), place);
    fs::current_path(at("a/b"));
    EXPECT_EQ(resolved("."), place);
}

TEST_F(PlaceTest, dot_dot_behind_a_symlink_goes_up_from_where_the_link_leads) {
    made("a/b");
    made("c");
    fs::create_directory_symlink(at("a/b"), at("c/link"));

    EXPECT_EQ(resolved(at("c/link/..")).path, at("a"));
}

TEST_F(PlaceTest, a_directory_contains_what_is_below_it_and_nothing_beside_it) {
    const Place outer = resolved(made("a"));
    const Place inner = resolved(made("a/b/c"));
    const Place beside = resolved(made("ab"));

    EXPECT_TRUE(contains(outer, inner));
    EXPECT_FALSE(contains(inner, outer));
    EXPECT_TRUE(contains(outer, outer));
    EXPECT_FALSE(contains(outer, beside));
    EXPECT_FALSE(contains(beside, outer));
}

TEST_F(PlaceTest, a_directory_made_anew_has_its_old_path_and_another_identity) {
    const std::string path = made("a");
    const Place before = resolved(path);
    // Held open, so that its inode is not given to the new one at once.
    const int old = open(path.c_str(), O_PATH | O_CLOEXEC);
    ASSERT_GE(old, 0);
    ASSERT_TRUE(fs::remove(path));
    EXPECT_EQ(refusal(path), "not_found");
    made("a");

    const Place after = resolved(path);

    EXPECT_EQ(after.path, before.path);
    EXPECT_NE(after.chain.front(), before.chain.front());
    EXPECT_EQ(std::vector(after.chain.begin() + 1, after.chain.end()),
              std::vector(before.chain.begin() + 1, before.chain.end()));
    close(old);
}

TEST_F(PlaceTest, a_deleted_directory_is_not_found_even_by_whoever_still_stands_in_it) {
    fs::current_path(made("a"));
    ASSERT_TRUE(fs::remove(at("a")));
    EXPECT_EQ(refusal("."), "not_found");

    // The kernel calls the deleted one "a (deleted)": a directory that has this name is still another one.
    made("a (deleted)");
    EXPECT_EQ(refusal("."), "not_found");
    EXPECT_EQ(resolved(at("a (deleted)")).path, at("a (deleted)"));
}

TEST_F(PlaceTest, what_is_not_there_is_not_found) {
    fs::create_symlink(at("nowhere"), at("dangling"));
    fs::create_symlink(at("circle_b"), at("circle_a"));
    fs::create_symlink(at("circle_a"), at("circle_b"));

    EXPECT_EQ(refusal(at("missing")), "not_found");
    EXPECT_EQ(refusal(at("missing/below")), "not_found");
    EXPECT_EQ(refusal(at("dangling")), "not_found");
    EXPECT_EQ(refusal(at("circle_a")), "not_found");
    EXPECT_EQ(refusal(""), "not_found");
}

TEST_F(PlaceTest, a_path_with_a_nul_is_not_cut_off_there) {
    const std::string path = made("a");
    ASSERT_EQ(refusal(path), "");

    EXPECT_EQ(refusal(path + '\0'), "not_found");
    EXPECT_EQ(refusal(path + '\0' + "/b"), "not_found");
    EXPECT_EQ(refusal(std::string(1, '\0')), "not_found");
}

TEST_F(PlaceTest, a_file_is_not_a_directory) {
    std::ofstream(at("file")) << "text";
    fs::create_symlink(at("file"), at("link_to_file"));
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);

    EXPECT_EQ(refusal(at("file")), "not_a_directory");
    EXPECT_EQ(refusal(at("file/")), "not_a_directory");
    EXPECT_EQ(refusal(at("file/below")), "not_a_directory");
    EXPECT_EQ(refusal(at("link_to_file")), "not_a_directory");
    EXPECT_EQ(refusal(at("pipe")), "not_a_directory");
    EXPECT_EQ(refusal("/dev/null"), "not_a_directory");
}

TEST_F(PlaceTest, what_lies_in_a_directory_that_this_process_may_not_search_is_not_permitted) {
    made("closed/below");
    ASSERT_EQ(chmod(at("closed").c_str(), 0), 0);

    // Permissions do not bind root, so for a moment this process is somebody else.
    const uid_t user = geteuid();
    if (user == 0) ASSERT_EQ(seteuid(65534), 0);
    const std::string below = refusal(at("closed/below"));
    const std::string closed = refusal(at("closed"));
    if (user == 0) ASSERT_EQ(seteuid(user), 0);
    chmod(at("closed").c_str(), 0700);

    EXPECT_EQ(below, "not_permitted");
    EXPECT_EQ(closed, "") << "where it is can be seen without looking into it";
}

TEST_F(PlaceTest, a_directory_may_be_as_deep_as_the_limit_and_not_deeper) {
    std::string path = root_;
    // The chain counts the root too.
    while (depth(path) + 1 < core::limits::place_depth_max) path += "/d";
    fs::create_directories(path + "/d/d");
    const std::size_t other_ways = resolved(root_).chain.size() - depth(root_) - 1;
    ASSERT_EQ(other_ways, 0u) << "the directory for temporary files is mounted more than once";

    EXPECT_EQ(resolved(path).chain.size(), core::limits::place_depth_max);
    EXPECT_EQ(refusal(path + "/d"), "too_deep");
    EXPECT_EQ(refusal(path + "/d/d"), "too_deep");
}

TEST_F(PlaceTest, a_directory_300_levels_down_is_too_deep_by_every_spelling) {
    std::string path = root_;
    for (int i = 0; i < 300; ++i) path += "/d";
    fs::create_directories(path);
    fs::create_directory_symlink(path, at("shortcut"));
    fs::current_path(path);

    EXPECT_EQ(refusal(path), "too_deep");
    EXPECT_EQ(refusal(at("shortcut")), "too_deep");
    EXPECT_EQ(refusal("."), "too_deep");
}

TEST_F(PlaceTest, a_path_longer_than_the_system_takes_is_too_deep) {
    std::string path = root_;
    while (path.size() < 5000) path += "/.";

    EXPECT_EQ(refusal(path), "too_deep");
}

TEST_F(PlaceTest, the_answer_says_what_why_and_what_to_do) {
    const auto place = resolve_workspace(at("missing"), ClaimMode::write, "here");

    ASSERT_FALSE(place);
    EXPECT_EQ(
        place.error().detail,
        fmt::format("workspace \"{}\": there is no such directory; create it or correct the path", at("missing")));
}

TEST_F(PlaceTest, path_and_chain_agree_while_the_directory_is_being_moved) {
    const std::string left = made("left");
    const std::string right = made("right");
    const std::string moving_id = identity(made("left/moving"));
    const std::string left_id = identity(left);
    const std::string right_id = identity(right);
    std::jthread mover([&](std::stop_token stop) {
        while (!stop.stop_requested()) {
            std::rename((left + "/moving").c_str(), (right + "/moving").c_str());
            std::rename((right + "/moving").c_str(), (left + "/moving").c_str());
        }
    });

    int seen_left = 0;
    int seen_right = 0;
    for (int i = 0; i < 5'000; ++i) {
        const auto place = resolve_workspace((i % 2 == 0 ? left : right) + "/moving", ClaimMode::write, "here");
        if (!place) {
            ASSERT_EQ(place.error().kind, Kind::not_found) << place.error().detail;
            continue;
        }
        const bool is_left = place->path == left + "/moving";
        ++(is_left ? seen_left : seen_right);
        ASSERT_EQ(place->path, (is_left ? left : right) + "/moving");
        ASSERT_EQ(place->chain.at(1), is_left ? left_id : right_id);
        ASSERT_EQ(place->chain.at(0), moving_id);
    }
    mover.request_stop();
    mover.join();

    EXPECT_GT(seen_left, 0);
    EXPECT_GT(seen_right, 0);
}

TEST_F(PlaceTest, nothing_stays_open) {
    const std::string path = made("a/b/c");
    const int before = open_descriptors();

    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(refusal(path), "");
        EXPECT_EQ(refusal(at("missing")), "not_found");
    }

    EXPECT_EQ(open_descriptors(), before);
}

// The mounts are made in a mount namespace of this process, so that nobody else sees them and they end with it.
class MountedPlaceTest : public PlaceTest {
 protected:
    void SetUp() override {
        static const int error =
            unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ? 0 : errno;
        if (error != 0) GTEST_SKIP() << "bind mounts are not permitted here: " << std::strerror(error);
    }
    ~MountedPlaceTest() override {
        for (auto point = points_.rbegin(); point != points_.rend(); ++point) umount2(point->c_str(), MNT_DETACH);
    }

    void bind(const std::string& from, const std::string& point) {
        ASSERT_EQ(mount(from.c_str(), point.c_str(), nullptr, MS_BIND, nullptr), 0) << std::strerror(errno);
        points_.push_back(point);
    }

    std::vector<std::string> points_;
};

TEST_F(MountedPlaceTest, a_bind_mount_is_the_directory_it_shows) {
    const Place original = resolved(made("a/b"));
    bind(at("a/b"), made("mnt/point"));

    const Place mounted = resolved(at("mnt/point"));

    EXPECT_EQ(mounted.path, at("mnt/point"));
    EXPECT_EQ(mounted.chain.front(), original.chain.front());
    EXPECT_TRUE(contains(original, mounted));
    EXPECT_TRUE(contains(mounted, original));
    EXPECT_TRUE(contains(resolved(at("mnt")), mounted));
}

TEST_F(MountedPlaceTest, a_bind_mount_of_a_parent_contains_what_is_held_below_it) {
    const Place held = resolved(made("a/b/c"));
    bind(at("a/b"), made("mnt"));

    EXPECT_TRUE(contains(resolved(at("mnt")), held));
    EXPECT_TRUE(contains(resolved(at("mnt")), resolved(at("mnt/c"))));
}

TEST_F(MountedPlaceTest, what_is_held_through_a_bind_mount_lies_in_the_parents_of_the_original_too) {
    made("a/b/c/d");
    bind(at("a/b/c"), made("mnt"));

    const Place held = resolved(at("mnt"));
    const Place held_below = resolved(at("mnt/d"));

    for (const char* outer : {"a/b", "a"}) {
        EXPECT_TRUE(contains(resolved(at(outer)), held)) << outer;
        EXPECT_TRUE(contains(resolved(at(outer)), held_below)) << outer;
        EXPECT_FALSE(contains(held, resolved(at(outer)))) << outer;
    }
}

TEST_F(MountedPlaceTest, a_directory_lies_in_every_directory_that_a_mount_brings_it_into) {
    made("original/inner");
    bind(at("original"), made("project/vendor"));
    const Place project = resolved(at("project"));

    EXPECT_TRUE(contains(project, resolved(at("original"))));
    EXPECT_TRUE(contains(project, resolved(at("original/inner"))));
    EXPECT_FALSE(contains(resolved(at("original")), project));
}

TEST_F(MountedPlaceTest, two_bind_mounts_of_nested_directories_contain_each_other_as_the_originals_do) {
    made("a/b/c");
    bind(at("a/b"), made("outer"));
    bind(at("a/b/c"), made("inner"));

    EXPECT_TRUE(contains(resolved(at("outer")), resolved(at("inner"))));
    EXPECT_FALSE(contains(resolved(at("inner")), resolved(at("outer"))));
}

TEST_F(MountedPlaceTest, a_directory_mounted_on_its_own_child_still_reaches_up_to_the_root) {
    made("a/child");
    bind(at("a"), at("a/child"));

    const Place child = resolved(at("a/child"));

    EXPECT_EQ(child.path, at("a/child"));
    EXPECT_EQ(child.chain.front(), identity(at("a")));
    EXPECT_TRUE(contains(resolved(root_), child));
    EXPECT_TRUE(contains(resolved("/"), child));
}

TEST_F(MountedPlaceTest, names_that_the_list_of_mounts_escapes_are_understood) {
    made("a b\\c\n#/inner");
    bind(at("a b\\c\n#/inner"), made("mnt \t\\040/point"));

    const Place mounted = resolved(at("mnt \t\\040/point"));

    EXPECT_EQ(mounted.path, at("mnt \t\\040/point"));
    EXPECT_TRUE(contains(resolved(at("a b\\c\n#")), mounted));
    EXPECT_TRUE(contains(resolved(at("mnt \t\\040")), resolved(at("a b\\c\n#/inner"))));
}

TEST_F(MountedPlaceTest, a_mount_that_is_covered_by_another_leads_nowhere) {
    const Place original = resolved(made("a/b"));
    bind(at("a/b"), made("mnt/point"));
    ASSERT_TRUE(contains(resolved(at("mnt")), resolved(at("a/b"))));
    ASSERT_EQ(mount("none", at("mnt/point").c_str(), "tmpfs", 0, nullptr), 0) << std::strerror(errno);
    points_.push_back(at("mnt/point"));

    EXPECT_EQ(resolved(at("a/b")), original);
    EXPECT_FALSE(contains(original, resolved(at("mnt/point"))));
    EXPECT_NE(resolved(at("mnt/point")).chain.front(), original.chain.front());
}

// ---- overlays -----------------------------------------------------------------------------------------------------

class OverlayPlaceTest : public MountedPlaceTest {
 protected:
    // On a file system of its own: not every one may be the upper layer.
    void SetUp() override {
        MountedPlaceTest::SetUp();
        if (IsSkipped()) return;
        ASSERT_EQ(mount("none", made("disk").c_str(), "tmpfs", 0, nullptr), 0) << std::strerror(errno);
        points_.push_back(at("disk"));
        for (const char* path : {"disk/l1/src", "disk/l2/docs", "disk/up", "disk/work", "disk/all"}) made(path);
        const std::string options = fmt::format("lowerdir={}:{},upperdir={},workdir={}", at("disk/l1"), at("disk/l2"),
                                                at("disk/up"), at("disk/work"));
        if (mount("none", at("disk/all").c_str(), "overlay", 0, options.c_str()) != 0) {
            GTEST_SKIP() << "overlays are not permitted here: " << std::strerror(errno);
        }
        points_.push_back(at("disk/all"));
    }
};

TEST_F(OverlayPlaceTest, an_overlay_contains_its_layers_and_lies_in_them) {
    const Place all = resolved(at("disk/all"));

    for (const char* layer : {"disk/up", "disk/l1", "disk/l2"}) {
        EXPECT_TRUE(contains(resolved(at(layer)), all)) << layer;
        EXPECT_TRUE(contains(all, resolved(at(layer)))) << layer;
    }
    EXPECT_FALSE(contains(resolved(at("disk/work")), all));
    EXPECT_TRUE(contains(resolved(at("disk")), all));
}

TEST_F(OverlayPlaceTest, a_directory_of_an_overlay_lies_in_the_layer_it_is_written_to_before_it_is_there) {
    const Place source = resolved(at("disk/all/src"));
    ASSERT_FALSE(fs::exists(at("disk/up/src")));

    EXPECT_TRUE(contains(resolved(at("disk/up")), source));
    EXPECT_TRUE(contains(resolved(at("disk/l1/src")), source));
    EXPECT_FALSE(contains(source, resolved(at("disk/up"))));
    EXPECT_FALSE(contains(resolved(at("disk/l2/docs")), source));

    std::ofstream(at("disk/all/src/file")) << "copied up";
    EXPECT_TRUE(contains(resolved(at("disk/up/src")), resolved(at("disk/all/src"))));
    EXPECT_TRUE(contains(resolved(at("disk/all")), resolved(at("disk/up/src"))));
}

TEST_F(OverlayPlaceTest, a_bind_mount_of_a_layer_is_followed_into_the_overlay) {
    bind(at("disk/up"), made("mnt"));

    EXPECT_TRUE(contains(resolved(at("disk/all")), resolved(at("mnt"))));
    EXPECT_TRUE(contains(resolved(at("mnt")), resolved(at("disk/all/src"))));
}

TEST_F(OverlayPlaceTest, two_overlays_on_one_lower_directory_are_two_places) {
    for (const char* path : {"disk/up2", "disk/work2", "disk/all2"}) made(path);
    const std::string options =
        fmt::format("lowerdir={},upperdir={},workdir={}", at("disk/l1"), at("disk/up2"), at("disk/work2"));
    ASSERT_EQ(mount("none", at("disk/all2").c_str(), "overlay", 0, options.c_str()), 0) << std::strerror(errno);
    points_.push_back(at("disk/all2"));

    EXPECT_FALSE(contains(resolved(at("disk/all")), resolved(at("disk/all2"))));
    EXPECT_FALSE(contains(resolved(at("disk/all2")), resolved(at("disk/all"))));
}

TEST(NamedResource, is_the_same_thing_on_every_host) {
    const Place resource = named_resource("deploy-prod", ClaimMode::write);

    EXPECT_EQ(resource, (Place{.kind = core::ClaimKind::resource,
                               .host = "",
                               .path = "deploy-prod",
                               .chain = {},
                               .mode = ClaimMode::write}));
    EXPECT_EQ(named_resource("docs", ClaimMode::read).mode, ClaimMode::read);
}

TEST(ThisHost, stays_the_same_and_does_not_show_the_machine_id) {
    const std::string host = this_host();
    std::string machine;
    std::ifstream("/etc/machine-id") >> machine;

    EXPECT_FALSE(host.empty());
    EXPECT_EQ(this_host(), host);
    if (!machine.empty()) EXPECT_EQ(host.find(machine), std::string::npos);
}

}  // namespace
}  // namespace interlock::supervisor
