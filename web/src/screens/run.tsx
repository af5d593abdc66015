// One run: state, timeline, log, facts, transcript, children and model calls.
import { useEffect, useMemo } from "preact/hooks";
import { of_runs } from "../lib/changes";
import { useNow } from "../lib/clock";
import { useLive } from "../lib/live";
import { link, useTitle } from "../lib/route";
import { segments_of } from "../lib/timeline";
import type { Page, Run as RunRow, RunDetail, RunStep } from "../lib/types";
import { length, shell_command, short_id, spoken } from "../lib/words";
import { Log } from "../ui/log";
import { Empty, Screen, Section, Tile, ErrorMessage, Loading } from "../ui/parts";
import { SandboxFacts } from "../ui/sandbox";
import { Timeline } from "../ui/timeline";
import { Transcript } from "../ui/transcript";
import { Ago, Badge, Command, Id, State } from "../ui/words";
import { type Calls, CallsTable, useCalls } from "./run_calls";
import { changes_run, has_ended, RunActions, RunFacts, Spent, duration_label, Duration } from "./run_parts";

export function Run({ id }: { id: string }) {
  const changes = useMemo(() => changes_run(id), [id]);
  const { data: run, problem } = useLive<RunDetail>(`v1/runs/${id}`, changes);
  const calls = useCalls(id);
  useTitle(run ? `${run.name || run.agent}: ${spoken(run.status)}` : short_id(id));
  const title = <><a class="crumb" href={link("runs")}>Runs</a> <span class="dim">/</span> {run?.name || <code>{id}</code>}</>;
  return (
    <Screen title={title} command={shell_command("interlock", "runs", "show", id)} actions={run && <RunActions run={run} />}>
      <ErrorMessage of={problem} />
      {!run && !problem && <Loading />}
      {run && (
        <div class="run stack">
          <Head run={run} />
          <Times run={run} calls={calls} />
          <div class="columns">
            <Section title="Log" aside={<Command text={shell_command("interlock", "runs", "logs", id, ...(has_ended(run) ? [] : ["--follow"]))} />}>
              <Log run={id} />
            </Section>
            <Section title="Details">
              <RunFacts run={run} headless>
                <Process run={run} />
              </RunFacts>
            </Section>
          </div>
          <Section title="Transcript" aside={run.session && <Command text={shell_command("interlock", "sessions", "messages", run.session)} />}>
            {run.session ? <Transcript session={run.session} run={id} /> : (
              <Empty command="interlock run --session ID -- claude">No session. Start a run with one to store its messages:</Empty>
            )}
          </Section>
          <Children of={id} />
          <CallsTable run={id} calls={calls} />
        </div>
      )}
    </Screen>
  );
}

/** Child runs. Hidden if there are none. */
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
        note={run.stop_requested && !has_ended(run) ? "cancel requested" : run.reason || (run.exit_code === null ? "" : `exit code ${run.exit_code}`)} />
      <Tile name="agent" value={run.agent} href={`${link("runs")}?agent=${encodeURIComponent(run.agent)}`}
        note={run.schedule ? `schedule ${run.schedule}` : run.model} />
      <Tile name="spent" value={<Spent run={run} />} note={`${run.tokens.toLocaleString("en")} tokens`} />
      <Tile name={duration_label(run)} value={<Duration run={run} />} note={<>created <Ago at={run.created_at} /></>} />
      <Tile name="attempt" value={run.attempt} note={run.retry_of ? <>retry of <Id of={run.retry_of} /></> : "first"} />
    </div>
  );
}

function Times({ run, calls }: { run: RunDetail; calls: Calls }) {
  const changes = useMemo(() => changes_run(run.id), [run.id]);
  const { data, problem } = useLive<Page<RunStep>>(`v1/runs/${run.id}/steps`, changes);
  const now = useNow(has_ended(run) ? 3_600_000 : 1_000);
  const segments = useMemo(() => segments_of(run, data?.items ?? [], calls.items, now), [run, data, calls.items, now]);
  // The timeline needs all calls, up to 1000.
  useEffect(() => {
    if (calls.more && calls.items.length < 1_000) void calls.read_more().catch(() => undefined);
  }, [calls.more, calls.items.length]);
  return (
    <Section title="Timeline" aside={<Command text={shell_command("interlock", "runs", "steps", run.id)} />}>
      <ErrorMessage of={problem?.status === 404 ? undefined : problem} />
      {segments.length > 0 ? <Timeline segments={segments} label="Timeline of the run" /> : <p class="dim">No steps.</p>}
      {calls.more && <p class="dim">Only the newest {calls.items.length.toLocaleString("en")} calls are shown.</p>}
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
      {run.queued_until && <><dt>queue timeout</dt><dd><Ago at={run.queued_until} /></dd></>}
      {run.workflow && <><dt>workflow</dt><dd>{run.workflow}</dd></>}
      {tags.length > 0 && <><dt>tags</dt><dd class="row">{tags.map(([name, value]) => <Badge key={name}>{name}={value}</Badge>)}</dd></>}
      {command && <><dt>command</dt><dd><pre class="argv" tabIndex={0}>{shell_command(...command)}</pre></dd></>}
      {!process && <><dt>process</dt><dd class="dim">owned by its client</dd></>}
      {process && (
        <>
          {process.adapter && <><dt>adapter</dt><dd>{process.adapter}</dd></>}
          <dt>timeout</dt><dd>{process.timeout_s > 0 ? length(process.timeout_s * 1_000) : "none"}</dd>
          <SandboxFacts of={process} applied={run.sandbox} />
          {process.env.length + process.pass_env.length > 0 && <><dt>environment</dt><dd><code>{[...process.env, ...process.pass_env].join(" ")}</code></dd></>}
          {process.foreground && <><dt>started</dt><dd>from a terminal</dd></>}
        </>
      )}
    </>
  );
}
