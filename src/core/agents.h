// Orgs, agents, keys and caps: who may work, and how many at once.
//
//   (1) Names are never freed: an archived agent's name belongs to its history, and putting it again brings it back.
//   (2) An agent works while nothing pauses it. Each pause has one author and is lifted by that author or by a person.
//   (3) A revoked key stays revoked.
#pragma once

#include <string>

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

OrgReply create_org(OrgState& state, Stamp stamp, const CreateOrg& command);
AgentReply put_agent(OrgState& state, Stamp stamp, const PutAgent& command);
AgentReply pause_agent(OrgState& state, Stamp stamp, const PauseAgent& command);
AgentReply resume_agent(OrgState& state, Stamp stamp, const ResumeAgent& command);
AgentReply archive_agent(OrgState& state, Stamp stamp, const ArchiveAgent& command);
KeyReply create_key(OrgState& state, Stamp stamp, const CreateKey& command);
KeyReply revoke_key(OrgState& state, Stamp stamp, const RevokeKey& command);
CapReply set_cap(OrgState& state, Stamp stamp, const SetCap& command);

// The agent, unless there is none or it is archived.
const Agent* working_agent(OrgState& state, const std::string& name);

std::string budget_pause(const std::string& budget);
void pause_by_budget(OrgState& state, Stamp stamp, const std::string& agent, const std::string& budget, Instant until);
void lift_pause(OrgState& state, const std::string& agent, const std::string& by);
// Lifts what has run out. True when a pause was lifted.
bool lift_ended_pauses(OrgState& state, Stamp stamp, const std::string& agent);

// Why an agent that stands still does, as a sentence.
std::string paused_because(const Agent& agent);

}  // namespace interlock::core
