// Who and what there is in the simulated fleet: agents, budgets, schedules, upstreams, keys, and what they talk about.
//
// Everything is made over the public API, in a directory of the demo's own. Nobody in it is real, and it says so: every
// agent has the tag fleet=simulated, every model is one of sim/… or house/….
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "demo/client.h"

namespace interlock::demo {

enum class DemoApi { openai_chat, openai_responses, anthropic, gemini, embeddings };

// One turn of a conversation.
struct DemoTurn {
    const char* question;
    const char* answer;
};

// An agent whose runs a thread of this process carries out, as a program of its user's would.
struct DemoRole {
    const char* agent;
    int runs_max = 1;
    const char* team;
    const char* workspace;  // Below the fleet's directory; empty: none.
    DemoApi dialect;
    const char* model;
    bool streams = false;
    bool uses_tools = false;
    int output_tokens = 200;
    const char* title;  // Of its sessions.
    std::span<const DemoTurn> talk;
};
std::span<const DemoRole> roles();

// What supervised runs run: text for a shell, with a name for people.
struct DemoScript {
    const char* name;
    const char* text;
};
extern const DemoScript build_script;
extern const DemoScript hostile_script;  // Its log is full of what a page must not take for its own.
extern const DemoScript failing_script;
extern const DemoScript slow_script;
extern const DemoScript dirty_script;  // Changes a file of the worktree it is in, and does not commit.
extern const DemoScript commit_script;
extern const DemoScript clean_script;

struct DemoSurroundings {
    std::string directory;  // Where the workspaces are.
    std::string house_url;  // A provider that rests now and then,
    std::string spare_url;  // and one that stands in for it.
    bool has_repository = false;
};

// Makes the directories, and a git repository among them, if there is a git.
Result<DemoSurroundings, std::string> make_workspaces(const std::string& directory);
// Makes whatever there is from the beginning. The error is for people.
Result<void, std::string> cast(DemoClient& admin, const DemoSurroundings& surroundings);

}  // namespace interlock::demo
