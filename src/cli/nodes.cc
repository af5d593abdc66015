#include "cli/nouns.h"

namespace interlock::cli {
namespace {

const View& nodes_view() {
    static const View view{.columns = {{"NAME", "name", Format::id},
                                       {"STATE", "state", Format::status},
                                       {"URL", "url", Format::id},
                                       {"VERSION", "version", Format::text, Room::if_there_is},
                                       {"STARTED", "started_at", Format::time},
                                       {"LAST SEEN", "seen_at", Format::time},
                                       {"LEASE UNTIL", "lease_until", Format::time, Room::if_there_is},
                                       {"NODE", "id", Format::id, Room::if_there_is}}};
    return view;
}

}  // namespace

std::vector<CliCommand> node_commands() {
    return {
        {.words = {"nodes", "ls"},
         .summary = "List the servers on the store: where they are, and whether they are alive",
         .examples = {{"interlock nodes ls", "'interlock nodes' says the same"}, {"interlock nodes ls --watch 1", ""}},
         .method = "GET",
         .path = "/v1/nodes",
         .answer = CliCommand::ResponseShape::whole,
         .view = &nodes_view(),
         .notes =
             "With the embedded store that is one. Every start of a node is a line; those that ended are gone from\n"
             "the list after a day."},
    };
}

}  // namespace interlock::cli
