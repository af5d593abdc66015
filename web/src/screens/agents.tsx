// Agents & schedules: who works here, how much at once, who stands still and why, and who wakes up when.
import { useState } from "preact/hooks";
import { send } from "../lib/api";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import { choose, link } from "../lib/route";
import type { Agent, Cap, Page, Spend } from "../lib/types";
import { absolute, count, length, moment, shell_command } from "../lib/words";
import { More, Unread, useList } from "../ui/list";
import { Action, Bar, Dialog, Empty, Screen, Section, Table, Trouble, Waiting } from "../ui/parts";
import { Ago, Command, Money, State } from "../ui/words";
import { Schedules } from "./schedules";

const agents_change = ["agent_changed", "agent_paused", "agent_resumed", "agent_archived", "run_changed", "run_ended", "charged"];
const caps_change = ["cap_changed", "run_changed", "run_ended"];
const spend_changes = ["charged"];

export function Agents({ query }: { path: string[]; query: URLSearchParams }) {
  const agents = useList<Agent>("v1/agents", agents_change);
  const chosen = query.get("agent");
  return (
    <Screen title="Agents & schedules" question="Who works here, how much at once, and who wakes up when?" twin="interlock agents ls">
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
      <Trouble of={problem} />
      {!data && !problem && <Waiting />}
      {data?.items.length === 0 && <Empty command="interlock agents put coder -- claude -p 'fix the tests'">There is no agent yet. This makes one:</Empty>}
      {data && data.items.length > 0 && (
        <Table label="All agents" rows={data.items} id={(agent) => agent.name} open={(agent) => choose({ agent: agent.name })}
          columns={[
            { title: "agent", of: (agent) => <a class="whole" href={`${link("agents")}?agent=${encodeURIComponent(agent.name)}`}>{agent.name}</a> },
            { title: "state", of: (agent) => <Standing agent={agent} /> },
            { title: "runs", of: (agent) => (
              <a class="quiet" href={`${link("runs")}?agent=${encodeURIComponent(agent.name)}`}>
                <Slots live={agent.live_runs} queued={agent.queued_runs} most={agent.max_concurrent_runs} />
              </a>
            ) },
            { title: "today", of: (agent) => <Money value={today.get(agent.name) ?? "0"} />, number: true },
            { title: "last spent", of: (agent) => <Ago at={agent.last_event_at} />, number: true, wide: true },
            { title: "command", of: (agent) => <code class="cut" title={agent.command.join(" ")}>{agent.command.join(" ") || "–"}</code>, wide: true },
            { title: "captures", of: (agent) => <span title="what its sessions keep of calls to models">{agent.capture}</span>, wide: true },
            { title: "actions", untitled: true, of: (agent) => <div class="buttons"><PauseOrResume agent={agent} /></div> },
          ]} />
      )}
      <More of={agents} command="interlock agents ls" />
    </Section>
  );
}

/** Whether it may begin anything; if not, who said so, why, and since when. */
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

/** One box for each run that may be live: full ones are taken, and behind them is who waits. */
function Slots({ live, queued = 0, most }: { live: number; queued?: number; most: number }) {
  const boxes = Math.max(most, live);
  const words = `${count(live)} of ${count(most)} at work${queued > 0 ? `, ${count(queued)} in line` : ""}`;
  return (
    <span class="slots" title={words}>
      <span class="unseen">{words}</span>
      <span aria-hidden="true">
        {boxes > slots_drawn_max && <Bar settled={BigInt(live)} held={0n} limit={BigInt(most)} label={words} />}
        {boxes <= slots_drawn_max && Array.from({ length: boxes }, (_, i) => <i key={i} class={i >= live ? "" : i < most ? "live" : "over"} />)}
        {Array.from({ length: Math.min(queued, queued_drawn_max) }, (_, i) => <i key={`q${i}`} class="queued" />)}
      </span>
      <small class="dim number" aria-hidden="true">{count(live)}/{count(most)}{queued > 0 && ` +${count(queued)}`}</small>
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
        confirm={by_budget.length > 0 && <>The budget {by_budget.join(", ")} has paused {agent.name}. This lifts that pause too.</>}>
        Resume
      </Action>
    );
  }
  return (
    <>
      <button type="button" disabled={!allowed} title={allowed ? undefined : "your key may only look"} onClick={() => ask(true)}>Pause</button>
      {asking && (
        <Dialog title={`Pause ${agent.name}`} close={() => ask(false)}>
          <p>It begins nothing new until somebody resumes it. What runs goes on.</p>
          <label>
            Why, for those who wonder
            <input value={reason} onInput={(event) => set_reason(event.currentTarget.value)} autofocus />
          </label>
          <div class="row end">
            <Action disabled={reason.trim() === ""} act={async () => {
              await send("POST", `${path}/pause`, { reason: reason.trim() });
              refresh("v1/agents", "v1/incidents");
              ask(false);
            }}>Pause {agent.name}</Action>
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
    ["runs", <Slots live={agent.live_runs} queued={agent.queued_runs} most={agent.max_concurrent_runs} />],
    ["command", agent.command.length > 0 && <code>{agent.command.join(" ")}</code>],
    ["works in", agent.workspace && <>{agent.workspace} ({agent.mode}{agent.isolate ? ", each run in a worktree of its own" : ""})</>],
    ["resources", agent.resources.join(", ")],
    ["when that is taken", (agent.workspace || agent.resources.length > 0) && (spoken_conflict[agent.on_conflict] ?? agent.on_conflict)],
    ["provider", agent.provider],
    ["program", agent.adapter],
    ["a run may take", agent.timeout_s > 0 && length(agent.timeout_s * 1_000)],
    ["tries", agent.retry.tries > 1 && `${agent.retry.tries}, the second after ${length(agent.retry.backoff_s * 1_000)}`],
    ["sandbox", agent.sandbox_level !== "server_default" && agent.sandbox_level],
    ["captures of calls", agent.capture],
    ["environment", names(agent.env)],
    ["tags", names(agent.tags)],
    ["spent", <><Money value={agent.spent} /> with {count(agent.tokens)} tokens</>],
    ["made", <Ago at={agent.created_at} />],
  ];
  return (
    <Dialog title={name} close={close} wide>
      <dl class="facts">
        {facts.filter(([, value]) => value).map(([fact, value]) => [<dt key={fact}>{fact}</dt>, <dd key={`${fact}=`}>{value}</dd>])}
      </dl>
      <div class="row">
        <a href={`${link("runs")}?agent=${encodeURIComponent(name)}`}>Its runs</a>
        <a href={`${link("sessions")}?q=${encodeURIComponent(name)}`}>Its sessions</a>
        <Command text={shell_command("interlock", "agents", "show", name)} />
        <span class="grow" />
        <PauseOrResume agent={agent} />
      </div>
    </Dialog>
  );
}

const spoken_conflict: Record<string, string> = {
  queue: "waits in line", refuse: "is refused", replace: "takes the place of who is there", isolate: "works in a worktree",
};

function Caps() {
  const { data, problem } = useLive<Page<Cap>>("v1/caps", caps_change);
  return (
    <Section title="Caps" aside={<Command text="interlock caps ls" />}>
      <Unread of={problem} />
      {!data && !problem && <Waiting />}
      {data?.items.length === 0 && <Empty command="interlock caps set org 20">Nothing bounds how many runs are live at once, but each agent's own number.</Empty>}
      {data && data.items.length > 0 && (
        <dl class="facts">
          {data.items.map((cap) => [
            <dt key={cap.kind + cap.name}>{cap.kind === "org" ? "all together" : `${cap.kind} ${cap.name}`}</dt>,
            <dd key={`${cap.kind + cap.name}=`}><Slots live={cap.live} most={cap.max_live} /></dd>,
          ])}
        </dl>
      )}
    </Section>
  );
}
