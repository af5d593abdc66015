// Faults put in on purpose: what no store and no engine may do, done behind their backs, so that a checker can be seen
// to notice. Each says whether it found something to spoil.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "sim/story.h"

namespace interlock::sim {

struct Sabotage {
    std::string name;  // What is done, as the end of "… is noticed".
    Promise promise;   // Whose checker must say so.
    std::function<bool(World&)> spoil;

    friend void PrintTo(const Sabotage& sabotage, std::ostream* out) { *out << sabotage.name; }
};

std::vector<Sabotage> all_sabotages();

// Tells stories until one has something to spoil, and returns what was found in it. Empty when none had.
std::optional<StoryResult> tell_spoiled_story(const Sabotage& sabotage);

// Writes rows past every engine. Rows of an appended kind are replaced where they are.
enum class Told { nobody, followers };  // Followers: of the commits, as if an engine had written it.

template <class Row>
void write_row(World& world, core::OrgId org, const Row& row, Told told = Told::nobody) {
    store::WriteSet writes;
    store::OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org;
    of_org.of<Row>().put.push_back(&row);
    world.database->write(writes);
    if (told == Told::followers) world.database->on_written(writes);
}

template <class Row>
void erase_row(World& world, core::OrgId org, const core::KeyOf<Row>& key) {
    store::WriteSet writes;
    store::OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org;
    of_org.of<Row>().erased.push_back(key);
    world.database->write(writes);
}

}  // namespace interlock::sim
