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
         .summary = "List the servers that share the store, with their addresses and states",
         .examples = {{"interlock nodes ls", "the same as 'interlock nodes'"}, {"interlock nodes ls --watch 1", ""}},
         .method = "GET",
         .path = "/v1/nodes",
         .answer = CliCommand::ResponseShape::whole,
         .view = &nodes_view(),
         .notes = "The embedded store has one server. Each start of a node is a row; rows of ended nodes are removed "
                  "after a day."},
    };
}

}  // namespace interlock::cli
