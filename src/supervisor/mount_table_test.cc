#include "supervisor/mount_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace interlock::supervisor {
namespace {

constexpr const char* table =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
    "30 22 8:1 /src /mnt/a\\040b rw,relatime - ext4 /dev/root rw\n"
    "31 22 0:40 / /all rw,relatime - overlay none rw,lowerdir=/layers/one:/layers/two\\134:x,upperdir=/layers/up,"
    "workdir=/layers/work,lowerdir+=/layers/three,datadir+=/layers/data\n"
    "32 22 0:40 /part /part rw - overlay none rw,lowerdir=/layers/one,upperdir=/layers/up,workdir=/layers/work\n";

std::vector<std::string> ways_to(const std::string& path) {
    std::vector<std::string> paths;
    for (const MountTable::Way& way : MountTable::from(table)->ways_to(path)) paths.push_back(way.path);
    std::ranges::sort(paths);
    return paths;
}

using Paths = std::vector<std::string>;

TEST(MountTable, what_is_mounted_twice_has_two_ways) {
    EXPECT_EQ(ways_to("/src/deep"), Paths{"/mnt/a b/deep"});
    EXPECT_EQ(ways_to("/mnt/a b"), Paths{"/src"});
    EXPECT_EQ(ways_to("/etc"), Paths{});
}

TEST(MountTable, an_overlay_leads_to_all_its_layers_and_each_of_them_to_it) {
    const Paths down = ways_to("/all/x");
    for (const char* layer : {"/layers/one/x", "/layers/two:x/x", "/layers/up/x", "/layers/three/x"}) {
        EXPECT_TRUE(std::ranges::count(down, layer) == 1) << layer;
    }
    for (const std::string& way : down) {
        EXPECT_FALSE(way.starts_with("/layers/work") || way.starts_with("/layers/data")) << way;
    }
    EXPECT_EQ(std::ranges::count(ways_to("/layers/up/x"), "/all/x"), 1);
    EXPECT_EQ(ways_to("/layers/work/x"), Paths{});
}

TEST(MountTable, a_part_of_an_overlay_that_is_mounted_leads_to_that_part_of_the_layers) {
    EXPECT_EQ(std::ranges::count(ways_to("/part/y"), "/layers/up/part/y"), 1);
    EXPECT_EQ(std::ranges::count(ways_to("/layers/one/part/y"), "/part/y"), 1);
    EXPECT_EQ(std::ranges::count(ways_to("/layers/one/other"), "/part"), 0);
}

TEST(MountTable, of_a_way_through_an_overlay_only_the_layer_must_be_there) {
    for (const MountTable::Way& way : MountTable::from(table)->ways_to("/all/x")) {
        if (way.path != "/layers/up/x") continue;
        EXPECT_EQ(way.through, MountTable::Through::layers);
        EXPECT_EQ(way.certain, std::string("/layers/up").size());
    }
    EXPECT_FALSE(MountTable::from(table)->ways_to("/src").front().leads_through_overlay());
}

TEST(MountTable, two_overlays_on_one_layer_are_no_ways_to_each_other) {
    const auto mounts = MountTable::from(
        "22 1 8:1 / / rw - ext4 /dev/root rw\n"
        "31 22 0:40 / /one rw - overlay none rw,lowerdir=/low,upperdir=/up1,workdir=/w1\n"
        "32 22 0:41 / /two rw - overlay none rw,lowerdir=/low,upperdir=/up2,workdir=/w2\n");
    for (const MountTable::Way& way : mounts->ways_to("/one/x")) {
        EXPECT_TRUE(way.path == "/low/x" || way.path == "/up1/x") << way.path;
    }
    EXPECT_EQ(mounts->ways_to("/low").size(), 2u);
}

TEST(MountTable, text_that_lists_no_mount_is_no_table) {
    EXPECT_FALSE(MountTable::from(""));
    EXPECT_FALSE(MountTable::from("nonsense\n"));
    EXPECT_EQ(MountTable::from(table)->text(), table);
    EXPECT_TRUE(MountTable::read());
}

}  // namespace
}  // namespace interlock::supervisor
