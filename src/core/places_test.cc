#include "core/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

Place seen_as(std::string path, std::vector<std::string> chain, ClaimMode mode = ClaimMode::write) {
    Place place = workspace(std::move(path), mode);
    place.chain = std::move(chain);
    return place;
}

Place on_host(Place place, std::string host) {
    place.host = std::move(host);
    return place;
}

// A collision is mutual, or it is none.
bool mutual(const Place& a, const Place& b) {
    const bool there = collide(a, b);
    EXPECT_EQ(there, collide(b, a)) << a.path << " and " << b.path;
    return there;
}

// ---- two places ---------------------------------------------------------------------------------------------------

TEST(Places, a_directory_collides_with_itself_with_what_it_contains_and_with_what_contains_it) {
    EXPECT_TRUE(mutual(workspace("/repo"), workspace("/repo")));
    EXPECT_TRUE(mutual(workspace("/repo"), workspace("/repo/src")));
    EXPECT_TRUE(mutual(workspace("/repo"), workspace("/repo/src/core/deep")));
    EXPECT_TRUE(mutual(workspace("/"), workspace("/repo/src")));
    EXPECT_TRUE(mutual(workspace("/"), workspace("/")));
}

TEST(Places, neighbours_do_not_collide_however_alike_their_names_are) {
    EXPECT_FALSE(mutual(workspace("/repo/a"), workspace("/repo/b")));
    EXPECT_FALSE(mutual(workspace("/repo"), workspace("/repo2")));
    EXPECT_FALSE(mutual(workspace("/repo"), workspace("/rep")));
    EXPECT_FALSE(mutual(workspace("/a/b"), workspace("/b/a")));
}

TEST(Places, one_directory_under_two_paths_is_one_place) {
    const Place real = seen_as("/repos/ada", {"8:7", "8:3", "8:2"});
    const Place mounted = seen_as("/mnt/work", {"8:7", "8:4", "8:2"});

    EXPECT_TRUE(mutual(real, mounted));
}

TEST(Places, a_directory_inside_another_ones_alias_is_inside_the_other) {
    const Place repo = seen_as("/repos/ada", {"8:7", "8:3", "8:2"});
    const Place inside_alias = seen_as("/mnt/work/src", {"8:9", "8:7", "8:4", "8:2"});
    const Place beside_alias = seen_as("/mnt/other", {"8:6", "8:4", "8:2"});

    EXPECT_TRUE(mutual(repo, inside_alias));
    EXPECT_FALSE(mutual(repo, beside_alias));
}

TEST(Places, a_common_ancestor_is_no_collision) {
    EXPECT_FALSE(mutual(seen_as("/repo/a", {"8:10", "8:7", "8:2"}), seen_as("/repo/b", {"8:11", "8:7", "8:2"})));
}

TEST(Places, a_directory_made_again_under_its_old_path_is_still_that_place) {
    EXPECT_TRUE(mutual(seen_as("/repo", {"8:7", "8:2"}), seen_as("/repo", {"8:70", "8:2"})));
    EXPECT_TRUE(mutual(seen_as("/repo", {"8:7", "8:2"}), seen_as("/repo/src", {"8:71", "8:70", "8:2"})));
}

TEST(Places, a_place_without_a_known_identity_is_compared_by_its_path) {
    EXPECT_TRUE(mutual(workspace("/repo"), seen_as("/repo/src", {"8:9", "8:7", "8:2"})));
    EXPECT_FALSE(mutual(workspace("/repo"), seen_as("/mnt/src", {"8:9", "8:7", "8:2"})));
}

TEST(Places, two_hosts_have_nothing_in_common_but_names) {
    const Place here = seen_as("/repo", {"8:7", "8:2"});
    const Place there = on_host(seen_as("/repo", {"8:7", "8:2"}), "other");

    EXPECT_FALSE(mutual(here, there));
    EXPECT_FALSE(mutual(on_host(workspace("/y"), "a:/x"), on_host(workspace("/x:/y"), "a")));
}

TEST(Places, readers_share_and_a_writer_does_not) {
    const Place reader = workspace("/repo", ClaimMode::read);
    const Place reader_inside = workspace("/repo/src", ClaimMode::read);
    const Place writer = workspace("/repo");
    const Place writer_inside = workspace("/repo/src");

    EXPECT_FALSE(mutual(reader, reader));
    EXPECT_FALSE(mutual(reader, reader_inside));
    EXPECT_TRUE(mutual(reader, writer));
    EXPECT_TRUE(mutual(reader, writer_inside));
    EXPECT_TRUE(mutual(writer, reader_inside));
}

TEST(Places, a_resource_collides_with_its_own_name_on_every_host_and_with_nothing_else) {
    EXPECT_TRUE(mutual(resource("deploy-prod"), resource("deploy-prod")));
    EXPECT_TRUE(mutual(on_host(resource("deploy-prod"), "a"), on_host(resource("deploy-prod"), "b")));
    EXPECT_FALSE(mutual(resource("deploy-prod"), resource("deploy")));
    EXPECT_FALSE(mutual(resource("deploy"), resource("deploy.prod")));
    EXPECT_FALSE(mutual(resource("deploy", ClaimMode::read), resource("deploy", ClaimMode::read)));
    EXPECT_TRUE(mutual(resource("deploy", ClaimMode::read), resource("deploy")));
    EXPECT_FALSE(mutual(resource("repo"), workspace("/repo")));
}

// ---- many places --------------------------------------------------------------------------------------------------

RunId number(std::uint64_t n) { return RunId(Id{0, n}); }

TEST(PlaceIndex, names_every_run_in_the_way_once_and_by_id) {
    PlaceIndex index;
    index.add(number(3), workspace("/repo/a"));
    index.add(number(3), workspace("/repo/b"));
    index.add(number(1), workspace("/repo/c/d"));
    index.add(number(2), workspace("/elsewhere"));

    EXPECT_EQ(index.colliding(workspace("/repo"), number(9)), (std::vector{number(1), number(3)}));
    EXPECT_EQ(index.colliding(workspace("/repo"), number(3)), (std::vector{number(1)}));
    EXPECT_TRUE(index.collides(workspace("/elsewhere/x"), number(9)));
    EXPECT_FALSE(index.collides(workspace("/elsewhere/x"), number(2)));
}

TEST(PlaceIndex, giving_back_one_of_two_places_keeps_the_other) {
    PlaceIndex index;
    index.add(number(1), workspace("/repo"));
    index.add(number(1), workspace("/repo/src"));

    index.remove(number(1), workspace("/repo"));

    EXPECT_TRUE(index.collides(workspace("/repo/src"), number(9)));
    EXPECT_TRUE(index.collides(workspace("/repo"), number(9)));
    EXPECT_FALSE(index.collides(workspace("/repo/doc"), number(9)));

    index.remove(number(1), workspace("/repo/src"));

    EXPECT_FALSE(index.collides(workspace("/"), number(9)));
}

// A small world of directories, some of them reachable by two paths. Containment is decided by walking up, by path and
// by identity, in the test's own words.
TEST(PlaceIndex, agrees_with_walking_up_from_each_place) {
    std::uint64_t seed = 42;
    const auto below = [&](std::uint64_t end) {
        seed += 0x9E3779B97F4A7C15ull;
        std::uint64_t z = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return (z ^ (z >> 31)) % end;
    };
    const auto random_place = [&] {
        std::string path;
        std::vector<std::string> chain{"8:root"};
        for (auto depth = below(4); depth > 0; --depth) {
            path += '/' + std::string(1, static_cast<char>('a' + below(2)));
            chain.insert(chain.begin(), "8:" + std::to_string(below(12)));
        }
        if (below(4) == 0) chain.clear();
        Place place = seen_as(path.empty() ? "/" : path, chain, below(2) == 0 ? ClaimMode::read : ClaimMode::write);
        return on_host(std::move(place), below(3) == 0 ? "other" : "host");
    };
    const auto contains = [](const Place& outer, const Place& inner) {
        const std::string prefix = outer.path == "/" ? "/" : outer.path + '/';
        const bool by_path = inner.path == outer.path || inner.path.starts_with(prefix);
        const bool by_identity =
            !outer.chain.empty() && std::ranges::find(inner.chain, outer.chain.front()) != inner.chain.end();
        return outer.host == inner.host && (by_path || by_identity);
    };
    std::array<int, 2> seen{};

    for (int round = 0; round < 300; ++round) {
        std::vector<Place> places;
        PlaceIndex index;
        for (std::uint64_t i = 0; i < 6; ++i) {
            places.push_back(random_place());
            index.add(number(i + 1), places.back());
        }
        index.remove(number(6), places.back());
        places.pop_back();
        const Place asked = random_place();

        std::vector<RunId> expected;
        for (std::uint64_t i = 0; i < places.size(); ++i) {
            const bool both_read = places[i].mode == ClaimMode::read && asked.mode == ClaimMode::read;
            if (!both_read && (contains(places[i], asked) || contains(asked, places[i])))
                expected.push_back(number(i + 1));
        }

        EXPECT_EQ(index.colliding(asked, number(99)), expected) << "round " << round << ": " << asked.path;
        seen[expected.empty() ? 0 : 1] += 1;
    }
    EXPECT_GT(seen[0], 30);
    EXPECT_GT(seen[1], 30);
}

// ---- what a client may ask for --------------------------------------------------------------------------------------

using PlaceChecks = RunsTest;

TEST_F(PlaceChecks, a_place_that_cannot_be_one_is_refused) {
    make_agent("ada");
    Place deep = workspace("/repo");
    deep.chain.assign(limits::place_depth_max + 1, "8:1");
    Place chained_resource = resource("deploy");
    chained_resource.chain = {"8:1"};
    const std::vector<Place> wrong = {
        workspace(""),
        workspace("repo"),
        workspace("repo/../x"),
        workspace("/repo/"),
        workspace("//repo"),
        workspace("/repo//src"),
        workspace("/repo/./src"),
        workspace("/repo/../src"),
        workspace("/repo/."),
        workspace("/repo/.."),
        workspace(std::string("/re\0po", 6)),
        workspace('/' + std::string(limits::text_bytes_max, 'x')),
        on_host(workspace("/repo"), "ho\nst"),
        on_host(workspace("/repo"), std::string(limits::name_bytes_max + 1, 'h')),
        seen_as("/repo", {"8:\n"}),
        deep,
        chained_resource,
        resource(""),
        resource("two words"),
        resource("-first"),
        resource("interlock.schedule.nightly"),
    };
    for (const Place& place : wrong) {
        EXPECT_EQ(apply(asking("ada", {place})).status, AdmitStatus::invalid_request) << place.path;
    }

    deep.chain.pop_back();
    for (const Place& place : {deep, workspace("/"), workspace("/repo/...x"), workspace("/with space/and\nline"),
                               resource("deploy-prod.eu_1"), resource("interlocked")}) {
        const auto reply = apply(asking("ada", {place}));
        EXPECT_NE(reply.status, AdmitStatus::invalid_request) << place.path << ": " << reply.detail;
    }
}

TEST_F(PlaceChecks, a_place_is_named_once_per_run) {
    make_agent("ada");

    EXPECT_EQ(apply(asking("ada", {workspace("/a"), workspace("/a")})).status, AdmitStatus::invalid_request);
    EXPECT_EQ(apply(asking("ada", {workspace("/a"), workspace("/a", ClaimMode::read)})).status,
              AdmitStatus::invalid_request);
    EXPECT_EQ(apply(asking("ada", {resource("x"), workspace("/a"), resource("x")})).status,
              AdmitStatus::invalid_request);

    admit(asking("ada", {workspace("/a"), on_host(workspace("/a"), "other"), resource("x"), workspace("/a/b")}));
}

TEST_F(PlaceChecks, a_run_claims_up_to_a_limit_of_places) {
    make_agent("ada");
    std::vector<Place> places;
    for (std::size_t i = 0; i < limits::claims_per_run_max; ++i) places.push_back(resource("r" + std::to_string(i)));

    const Owned all = admit(asking("ada", places));
    EXPECT_EQ(claims_of(all.run), limits::claims_per_run_max);

    places.push_back(resource("one-more"));
    EXPECT_EQ(apply(asking("ada", places)).status, AdmitStatus::invalid_request);
}

}  // namespace
}  // namespace interlock::core
