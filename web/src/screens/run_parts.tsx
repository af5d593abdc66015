// Parts that the list of runs and the screen of one run share.
import { useNow } from "../lib/clock";
import { send } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { refresh } from "../lib/live";
import { go, link } from "../lib/route";
import type { Run } from "../lib/types";
import { length } from "../lib/words";
import { Action } from "../ui/parts";
import { Ago, Badge, Id, Money } from "../ui/words";

const ended = new Set(["succeeded", "failed", "cancelled", "timed_out", "lost"]);

export function has_ended(run: Run): boolean {
  return ended.has(run.status);
}

/** Predicate for the events of one run. */
export function changes_run(id: string): (event: FeedEvent) => boolean {
  return (event) => event.data.run === id;
}

/** Duration of a run, or how long it has been queued. */
export function Duration({ run }: { run: Run }) {
  return run.ended_at
    ? <>{length(Date.parse(run.ended_at) - Date.parse(run.admitted_at ?? run.created_at))}</>
    : <Since at={run.status === "queued" ? run.created_at : run.admitted_at ?? run.created_at} />;
}

export function Since({ at }: { at: string }) {
  return <>{length(Math.max(0, useNow() - Date.parse(at)))}</>;
}

export function Spent({ run }: { run: Run }) {
  return <Money value={run.spent} estimated={/[1-9]/.test(run.estimated)} />;
}

export function short_workspace(run: Run): string {
  return run.workspace?.split("/").slice(-2).join("/") ?? run.places.map((target) => target.path).join(", ");
}

export function RunActions({ run }: { run: Run }) {
  // A run that a client owns is paused with its fence, as its owner would.
  const fence = run.supervised ? {} : { fence: run.fence };
  const post = async (what: string, body: object = {}) => {
    const answer = await send<{ id: string }>("POST", `v1/runs/${run.id}/${what}`, body);
    refresh(`v1/runs/${run.id}`);
    return answer;
  };
  if (has_ended(run)) {
    return (
      <Action act={async () => go("runs", (await post("retry"))!.id)} disabled={!run.supervised}
        title={run.supervised ? "Start a new run with the same command" : "only runs that the server started can be retried"}>
        Retry run
      </Action>
    );
  }
  return (
    <>
      {run.status === "paused"
        ? <Action act={() => post("resume", fence)}>Resume run</Action>
        : <Action act={() => post("pause", fence)} disabled={run.status !== "running"} title="Stop its processes and keep its claims">Pause run</Action>}
      <Action act={() => post("cancel")} danger disabled={run.stop_requested !== null}
        confirm={<p>{run.name || run.id} of {run.agent} is asked to end. Unsaved work is lost. Its cost stays charged.</p>}>
        {run.stop_requested === null ? "Cancel run" : "Cancel requested"}
      </Action>
    </>
  );
}

type Fact = [string, preact.ComponentChildren];

/** Facts that the screen of a run shows in its tiles. */
function essentials_of(run: Run): Fact[] {
  return [
    ["agent", run.agent],
    ["spent", <><Spent run={run} />{run.budget && <> of <Money value={run.budget} /></>} <span class="dim">{run.tokens.toLocaleString("en")} tokens</span></>],
    [duration_label(run), <Duration run={run} />],
    ["created", <Ago at={run.created_at} />],
  ];
}

function more_of(run: Run): Fact[] {
  const facts: Fact[] = [];
  if (run.ended_at) facts.push(["ended", <Ago at={run.ended_at} />]);
  if (run.reason) facts.push(["reason", run.reason]);
  if (run.stop_requested) facts.push(["cancel requested", run.stop_requested]);
  if (run.exit_code !== null) facts.push(["exit code", run.exit_code]);
  if (run.attempt > 1 || run.retry_of) facts.push(["attempt", <>{run.attempt}{run.retry_of && <>, retry of <Id of={run.retry_of} /></>}</>]);
  if (run.parent) facts.push(["parent", <Id of={run.parent} />]);
  if (run.spent_total !== null) facts.push(["spent with children", <Money value={run.spent_total} />]);
  for (const target of run.places) {
    const copied = run.isolated && target.kind === "workspace";
    facts.push([target.kind, <>{target.path} {target.mode === "read" && <Badge>read</Badge>} {copied && <Badge>worktree</Badge>}</>]);
  }
  if (run.schedule) facts.push(["schedule", <a href={`${link("runs")}?schedule=${encodeURIComponent(run.schedule)}`}>{run.schedule}</a>]);
  if (run.session) facts.push(["session", <Id of={run.session} />]);
  return facts;
}

export function duration_label(run: Run): string {
  return run.status === "queued" ? "queued for" : has_ended(run) ? "duration" : "live for";
}

/** Facts of a run; `headless` leaves out those that are in the tiles. */
export function RunFacts({ run, headless, children }: { run: Run; headless?: boolean; children?: preact.ComponentChildren }) {
  const facts = [...(headless ? [] : essentials_of(run)), ...more_of(run)];
  return (
    <dl class="facts">
      {facts.map(([name, value], i) => [<dt key={`${i} name`}>{name}</dt>, <dd key={i}>{value}</dd>])}
      {children}
    </dl>
  );
}
