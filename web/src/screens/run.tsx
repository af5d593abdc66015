// Run: what does it do, what did it do with its time, and what did each step cost?
import { useEffect, useMemo } from "preact/hooks";
import { of_runs } from "../lib/changes";
import { useNow } from "../lib/clock";
import { useLive } from "../lib/live";
import { link, useTitle } from "../lib/route";
import { segments_of } from "../lib/timeline";
import type { Page, Run as RunRow, RunDetail, RunStep } from "../lib/types";
import { shell_command, short_id, spoken } from "../lib/words";
import { Log } from "../ui/log";
import { Empty, Screen, Section, Tile, Trouble, Waiting } from "../ui/parts";
import { Timeline } from "../ui/timeline";
import { Transcript } from "../ui/transcript";
import { Ago, Badge, Command, Id, State } from "../ui/words";
import { type Calls, CallsTable, useCalls } from "./run_calls";
import { changes_run, has_ended, RunActions, RunFacts, Spent, time_word, Took } from "./run_parts";

export function Run({ id }: { id: string }) {
  const changes = useMemo(() => changes_run(id), [id]);
  const { data: run, problem } = useLive<RunDetail>(`v1/runs/${id}`, changes);
  const calls = useCalls(id);
  useTitle(run ? `${run.name || run.agent}: ${spoken(run.status)}` : short_id(id));
  const title = <><a class="crumb" href={link("runs")}>Runs</a> <span class="dim">/</span> {run?.name || <code>{id}</code>}</>;
  return (
    <Screen title={title} twin={shell_command("interlock", "runs", "show", id)} actions={run && <RunActions run={run} />}>
      <Trouble of={problem} />
      {!run && !problem && <Waiting />}
      {run && (
        <div class="run stack">
          <Head run={run} />
          <Times run={run} calls={calls} />
          <div class="columns">
            <Section title="Log" aside={<Command text={shell_command("interlock", "runs", "logs", id, ...(has_ended(run) ? [] : ["--follow"]))} />}>
              <Log run={id} />
            </Section>
            <Section title="About it">
              <RunFacts run={run} headless>
                <Process run={run} />
              </RunFacts>
            </Section>
          </div>
          <Section title="Transcript" aside={run.session && <Command text={shell_command("interlock", "sessions", "messages", run.session)} />}>
            {run.session ? <Transcript session={run.session} run={id} /> : (
              <Empty command="interlock run --session ID -- claude">It writes to no session. With one, what it said stays here:</Empty>
            )}
          </Section>
          <Children of={id} />
          <CallsTable run={id} calls={calls} />
        </div>
      )}
    </Screen>
  );
}

/** Runs that a program of this run has started. Most runs have none. */
function Children({ of: id }: { of: string }) {
  const { data } = useLive<Page<RunRow>>(`v1/runs?parent=${id}&limit=100`, of_runs);
  if (!data || data.items.length === 0) return null;
  return (
    <Section title="Children" aside={<Command text={shell_command("interlock", "runs", "ls", "--parent", id)} />}>
      <ul class="children">
        {data.items.map((child) => (
          <li key={child.id}><State of={child.status} /> <Id of={child.id} /> {child.name || child.agent} <Spent run={child} /></li>
        ))}
      </ul>
    </Section>
  );
}

function Head({ run }: { run: RunDetail }) {
  return (
    <div class="tiles">
      <Tile name="state" value={<State of={run.status} />}
        note={run.stop_requested && !has_ended(run) ? "asked to stop" : run.reason || (run.exit_code === null ? "" : `exit code ${run.exit_code}`)} />
      <Tile name="agent" value={run.agent} href={`${link("runs")}?agent=${encodeURIComponent(run.agent)}`}
        note={run.schedule ? `by schedule ${run.schedule}` : run.model} />
      <Tile name="spent" value={<Spent run={run} />} note={`${run.tokens.toLocaleString("en")} tokens`} />
      <Tile name={time_word(run)} value={<Took run={run} />} note={<>asked for <Ago at={run.created_at} /></>} />
      <Tile name="attempt" value={run.attempt} note={run.retry_of ? <>again for <Id of={run.retry_of} /></> : "the first"} />
    </div>
  );
}

function Times({ run, calls }: { run: RunDetail; calls: Calls }) {
  const changes = useMemo(() => changes_run(run.id), [run.id]);
  const { data, problem } = useLive<Page<RunStep>>(`v1/runs/${run.id}/steps`, changes);
  const now = useNow(has_ended(run) ? 3_600_000 : 1_000);
  const segments = useMemo(() => segments_of(run, data?.items ?? [], calls.items, now), [run, data, calls.items, now]);
  // The band is true only as far back as the calls are known.
  useEffect(() => {
    if (calls.more && calls.items.length < 1_000) void calls.read_more().catch(() => undefined);
  }, [calls.more, calls.items.length]);
  return (
    <Section title="Time" aside={<Command text={shell_command("interlock", "runs", "steps", run.id)} />}>
      <Trouble of={problem?.status === 404 ? undefined : problem} />
      {segments.length > 0 ? <Timeline segments={segments} label="What the run did with its time" /> : <p class="dim">It took no time.</p>}
      {calls.more && <p class="dim">Only the newest {calls.items.length.toLocaleString("en")} calls are drawn.</p>}
    </Section>
  );
}

function Process({ run }: { run: RunDetail }) {
  const { process, command } = run;
  const tags = Object.entries(run.tags);
  return (
    <>
      <dt>id</dt><dd><code>{run.id}</code></dd>
      <dt>node</dt><dd>{run.node} <span class="dim">fence {run.fence}, priority {run.priority}</span></dd>
      {run.lease_until && <><dt>lease</dt><dd>until <Ago at={run.lease_until} /></dd></>}
      {run.queued_until && <><dt>waits</dt><dd>at most until <Ago at={run.queued_until} /></dd></>}
      {run.workflow && <><dt>workflow</dt><dd>{run.workflow}</dd></>}
      {tags.length > 0 && <><dt>tags</dt><dd class="row">{tags.map(([name, value]) => <Badge key={name}>{name}={value}</Badge>)}</dd></>}
      {command && <><dt>command</dt><dd><pre class="argv" tabIndex={0}>{shell_command(...command)}</pre></dd></>}
      {!process && <><dt>process</dt><dd class="dim">its client's own</dd></>}
      {process && (
        <>
          {process.adapter && <><dt>adapter</dt><dd>{process.adapter}</dd></>}
          <dt>may take</dt><dd>{process.timeout_s > 0 ? `${process.timeout_s} s` : "as long as it likes"}</dd>
          {run.sandbox && <><dt>sandbox</dt><dd>{run.sandbox}{process.writable.length > 0 && `, writes also to ${process.writable.join(", ")}`}</dd></>}
          {process.env.length + process.pass_env.length > 0 && <><dt>environment</dt><dd><code>{[...process.env, ...process.pass_env].join(" ")}</code></dd></>}
          {process.foreground && <><dt>started</dt><dd>from somebody's terminal</dd></>}
        </>
      )}
    </>
  );
}
