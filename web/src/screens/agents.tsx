// Agents and schedules: state, live runs and caps of agents, and when schedules fire.
import { useState } from "preact/hooks";
import { send } from "../lib/api";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import { choose, link } from "../lib/route";
import type { Agent, Cap, Page, Spend } from "../lib/types";
import { absolute, count, length, moment, shell_command } from "../lib/words";
import { More, ReadError, useList } from "../ui/list";
import { Action, Bar, Dialog, Empty, ErrorMessage, Loading, no_right, Screen, Section, Table } from "../ui/parts";
import { SandboxFacts } from "../ui/sandbox";
import { Ago, Command, Money, State } from "../ui/words";
import { Schedules } from "./schedules";

const agents_change = ["agent_changed", "agent_paused", "agent_resumed", "agent_archived", "run_changed", "run_ended", "charged"];
const caps_change = ["cap_changed", "run_changed", "run_ended"];
const spend_changes = ["charged"];

export function Agents({ query }: { path: string[]; query: URLSearchParams }) {
  const agents = useList<Agent>("v1/agents", agents_change);
  const chosen = query.get("agent");
  return (
    <Screen title="Agents & schedules" summary="Agents with their live runs, schedules and caps" command="interlock agents ls">
      <AgentList agents={agents} />
      <Schedules />
      <Caps />
      {chosen && <Settings of={agents.data?.items.find((each) => each.name === chosen)} name={chosen} />}
    </Screen>
  );
}

function AgentList({ agents }: { agents: ReturnType<typeof useList<Agent>> }) {
  const spend = useLive<Spend>(`v1/spend?by=agent&from=${new Date().toISOString().slice(0, 10)}`, spend_changes);
  const today = new Map(spend.data?.items.map((each) => [each.agent, each.cost]));
  const { data, problem } = agents;
  return (
    <Section title="Agents">
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty command="interlock agents put coder -- claude -p 'fix the tests'">No agents. Create one:</Empty>}
      {data && data.items.length > 0 && (
        <Table label="All agents" rows={data.items} id={(agent) => agent.name} open={(agent) => choose({ agent: agent.name })}
          columns={[
            { title: "agent", of: (agent) => <a class="whole" href={`${link("agents")}?agent=${encodeURIComponent(agent.name)}`}>{agent.name}</a> },
            { title: "state", of: (agent) => <Standing agent={agent} /> },
            { title: "runs", of: (agent) => (
              <a class="quiet" href={`${link("runs")}?agent=${encodeURIComponent(agent.name)}`}>
                <Slots live={agent.live_runs} queued={agent.queued_runs} cap={agent.max_concurrent_runs} />
              </a>
            ) },
            { title: "spent today", of: (agent) => <Money value={today.get(agent.name) ?? "0"} />, number: true },
            { title: "last cost", of: (agent) => <Ago at={agent.last_event_at} />, number: true, wide: true },
            { title: "command", of: (agent) => <code class="cut" title={agent.command.join(" ")}>{agent.command.join(" ") || "–"}</code>, wide: true },
            { title: "capture", of: (agent) => <span title="what sessions store of model calls">{agent.capture}</span>, wide: true },
            { title: "actions", untitled: true, of: (agent) => <div class="buttons"><PauseOrResume agent={agent} /></div> },
          ]} />
      )}
      <More of={agents} command="interlock agents ls" />
    </Section>
  );
}

/** State of an agent, with the origin, reason and time of each pause. */
function Standing({ agent }: { agent: Agent }) {
  return (
    <>
      <State of={agent.state} />
      {agent.pauses.map((pause) => (
        <small key={pause.by} class="dim under">
          {pause.by.startsWith("budget:")
            ? <a href={link("budgets", pause.by.slice(7))}>{pause.reason || pause.by}</a>
            : `by ${pause.by}${pause.reason && `: ${pause.reason}`}`}
          , <Ago at={pause.since} />
          {pause.until && <span title={absolute(pause.until)}>, until {moment(new Date(pause.until))}</span>}
        </small>
      ))}
    </>
  );
}

const slots_drawn_max = 24;
const queued_drawn_max = 6;

/** One box per run that the cap allows, filled for live runs, followed by the queued runs. */
function Slots({ live, queued = 0, cap }: { live: number; queued?: number; cap: number }) {
  const boxes = Math.max(cap, live);
  const words = `${count(live)} of ${count(cap)} live${queued > 0 ? `, ${count(queued)} queued` : ""}`;
  return (
    <span class="slots" title={words}>
      <span class="unseen">{words}</span>
      <span aria-hidden="true">
        {boxes > slots_drawn_max && <Bar settled={BigInt(live)} held={0n} limit={BigInt(cap)} label={words} />}
        {boxes <= slots_drawn_max && Array.from({ length: boxes }, (_, i) => <i key={i} class={i >= live ? "" : i < cap ? "live" : "over"} />)}
        {Array.from({ length: Math.min(queued, queued_drawn_max) }, (_, i) => <i key={`q${i}`} class="queued" />)}
      </span>
      <small class="dim number" aria-hidden="true">{count(live)}/{count(cap)}{queued > 0 && ` +${count(queued)}`}</small>
    </span>
  );
}

function PauseOrResume({ agent }: { agent: Agent }) {
  const allowed = useMay("operate");
  const [asking, ask] = useState(false);
  const [reason, set_reason] = useState("");
  const path = `v1/agents/${encodeURIComponent(agent.name)}`;
  const by_budget = agent.pauses.filter((pause) => pause.by.startsWith("budget:")).map((pause) => pause.by.slice(7));
  if (agent.state === "paused") {
    return (
      <Action act={async () => { await send("POST", `${path}/resume`); refresh("v1/agents", "v1/incidents"); }}
        confirm={by_budget.length > 0 && <>Budget {by_budget.join(", ")} paused {agent.name}. This also ends that pause.</>}>
        Resume agent
      </Action>
    );
  }
  return (
    <>
      <button type="button" disabled={!allowed} title={allowed ? undefined : no_right} onClick={() => ask(true)}>Pause agent</button>
      {asking && (
        <Dialog title={`Pause ${agent.name}?`} close={() => ask(false)}>
          <p>No new runs start until you resume the agent. Live runs continue.</p>
          <label>
            Reason
            <input value={reason} onInput={(event) => set_reason(event.currentTarget.value)} autofocus />
          </label>
          <div class="row end">
            <Action disabled={reason.trim() === ""} act={async () => {
              await send("POST", `${path}/pause`, { reason: reason.trim() });
              refresh("v1/agents", "v1/incidents");
              ask(false);
            }}>Pause agent</Action>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Settings({ of: agent, name }: { of: Agent | undefined; name: string }) {
  const close = () => choose({ agent: undefined });
  if (!agent) return null;
  const names = (values: Record<string, string | null>) => Object.entries(values).map(([key, value]) => (value === null ? key : `${key}=${value}`)).join("  ");
  const facts: [string, preact.ComponentChildren][] = [
    ["state", <Standing agent={agent} />],
    ["runs", <Slots live={agent.live_runs} queued={agent.queued_runs} cap={agent.max_concurrent_runs} />],
    ["command", agent.command.length > 0 && <code>{agent.command.join(" ")}</code>],
    ["workspace", agent.workspace && <>{agent.workspace} ({agent.mode}{agent.isolate ? "; each run in its own worktree" : ""})</>],
    ["resources", agent.resources.join(", ")],
    ["if claimed", (agent.workspace || agent.resources.length > 0) && (spoken_conflict[agent.on_conflict] ?? agent.on_conflict)],
    ["provider", agent.provider],
    ["adapter", agent.adapter],
    ["timeout", agent.timeout_s > 0 && length(agent.timeout_s * 1_000)],
    ["max attempts", agent.retry.tries > 1 && `${agent.retry.tries}, first retry after ${length(agent.retry.backoff_s * 1_000)}`],
    ["capture", agent.capture],
    ["environment", names(agent.env)],
    ["tags", names(agent.tags)],
    ["spent", <><Money value={agent.spent} /> with {count(agent.tokens)} tokens</>],
    ["created", <Ago at={agent.created_at} />],
  ];
  return (
    <Dialog title={name} close={close} wide>
      <dl class="facts">
        {facts.filter(([, value]) => value).map(([fact, value]) => [<dt key={fact}>{fact}</dt>, <dd key={`${fact}=`}>{value}</dd>])}
        <SandboxFacts of={agent} />
      </dl>
      <div class="row">
        <a href={`${link("runs")}?agent=${encodeURIComponent(name)}`}>Runs</a>
        <a href={`${link("sessions")}?q=${encodeURIComponent(name)}`}>Sessions</a>
        <Command text={shell_command("interlock", "agents", "show", name)} />
        <span class="grow" />
        <PauseOrResume agent={agent} />
      </div>
    </Dialog>
  );
}

const spoken_conflict: Record<string, string> = {
  queue: "the run is queued", refuse: "the run is refused", replace: "the other run is cancelled", isolate: "the run gets a worktree",
};

function Caps() {
  const { data, problem } = useLive<Page<Cap>>("v1/caps", caps_change);
  return (
    <Section title="Caps" aside={<Command text="interlock caps ls" />}>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty command="interlock caps set org 20">No caps besides those of agents. Create one:</Empty>}
      {data && data.items.length > 0 && (
        <dl class="facts">
          {data.items.map((cap) => [
            <dt key={cap.kind + cap.name}>{cap.kind === "org" ? "all runs" : `${cap.kind} ${cap.name}`}</dt>,
            <dd key={`${cap.kind + cap.name}=`}><Slots live={cap.live} cap={cap.max_live} /></dd>,
          ])}
        </dl>
      )}
    </Section>
  );
}
