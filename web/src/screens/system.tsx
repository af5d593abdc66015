// System: the server, its guarantees, nodes, claims, worktrees and API keys.
import { useMemo } from "preact/hooks";
import { get } from "../lib/api";
import { of_status } from "../lib/changes";
import { useNow } from "../lib/clock";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import type { Finding, Node, Org, Page, Status, VerifyReport } from "../lib/types";
import { ago, bytes, count, length } from "../lib/words";
import { ReadError } from "../ui/list";
import { Action, Empty, Screen, Section, Table, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Command, State } from "../ui/words";
import { Keys } from "./api_keys";
import { Claims, Worktrees } from "./claims";

const nothing: string[] = []; // No event announces a change, so the data is as of its last read.
const orgs_change = ["org_created"];

export function System({ query }: { path: string[]; query: URLSearchParams }) {
  return (
    <Screen title="System" summary="The server, its guarantees, nodes, claims, worktrees and API keys" command="interlock status"
      actions={<button type="button" class="plain" onClick={() => refresh("v1/")}>Refresh</button>}>
      <div class="halves">
        <About />
        <Doctor />
      </div>
      <Guarantees />
      <Nodes />
      <Claims />
      <Worktrees />
      <Keys query={query} />
      <Orgs />
    </Screen>
  );
}

function About() {
  const { data, problem } = useLive<Status>("v1/status", of_status);
  const now = useNow();
  if (!data) return <Section title="This server"><ReadError of={problem} />{!problem && <Loading />}</Section>;
  const engine = data.engine;
  const facts: [string, preact.ComponentChildren][] = [
    ["version", data.version],
    ["address", data.address],
    ["uptime", <span title={new Date(data.started_at).toLocaleString("en-GB")}>{length(Math.max(0, now - Date.parse(data.started_at)))}</span>],
    ["store", <>{data.store}{data.store_bytes !== undefined && data.store_bytes !== null && `, ${bytes(data.store_bytes)}`}</>],
    ["data directory", data.data_dir],
    ["org", data.org],
    ["events", count(data.head_seq)],
    ["commands", engine && `${count(engine.commands)} in ${count(engine.batches)} batches, largest batch ${count(engine.batch_max)}`],
    ["queued commands", engine && count(engine.queue_depth)],
    ["failed commits", engine && (engine.failed_commits > 0
      ? <span class="state bad">{count(engine.failed_commits)}, reloaded {count(engine.reloads)} times</span>
      : "none")],
  ];
  return (
    <Section title="This server">
      <ErrorMessage of={problem} />
      <dl class="facts">{facts.filter(([, value]) => value).map(([fact, value]) => [<dt key={fact}>{fact}</dt>, <dd key={`${fact}=`}>{value}</dd>])}</dl>
    </Section>
  );
}

function Doctor() {
  const { data, problem } = useLive<{ ok: boolean; items: Finding[] }>("v1/doctor", nothing);
  const worst = ["fail", "warn", "ok"];
  const items = [...(data?.items ?? [])].sort((one, other) => worst.indexOf(one.level) - worst.indexOf(other.level));
  return (
    <Section title="Doctor" aside={<Command text="interlock doctor" />}>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty>No checks.</Empty>}
      <ul class="findings">
        {items.map((each) => (
          <li key={each.what}>
            <State of={each.level} />
            <div>
              {each.what}: <span class="dim">{each.detail}</span>
              {each.do && each.level !== "ok" && <div>{each.do.startsWith("interlock ") ? <Command text={each.do} /> : each.do}</div>}
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Guarantees() {
  const { data, problem } = useLive<{ at: string | null; report: VerifyReport | null }>("v1/verify/last", nothing);
  const check = async () => {
    await get("v1/verify");
    refresh("v1/verify", "v1/doctor", "v1/incidents");
  };
  const report = data?.report;
  return (
    <Section title="Guarantees" aside={
      <div class="row">
        {report && (
          <span class={`state ${report.ok ? "good" : "bad"}`}>
            {report.ok ? "no violations" : `${count(report.violations)} violations`}, checked <Ago at={data.at} /> in {length(report.milliseconds)}
          </span>
        )}
        {problem?.status !== 403 && <Action needs="read" act={check}>Check now</Action>}
        <Command text="interlock verify" />
      </div>
    }>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data && !report && <Empty>Not checked since the server started. “Check now” recomputes every figure from the stored rows.</Empty>}
      {report && (
        <Table label="All guarantees" rows={report.promises} id={(promise) => promise.id}
          columns={[
            { title: "guarantee", of: (promise) => <>{promise.title} <small class="dim">{promise.id}</small></> },
            { title: "outcome", of: (promise) => (promise.violations > 0
              ? <span class="state bad">{count(promise.violations)} violations</span>
              : <span class="state good">holds</span>) },
            { title: "checked", of: (promise) => `${count(promise.checked)} ${promise.checked_what}`, wide: true },
            { title: "findings", of: (promise) => [...promise.examples, ...promise.notes].map((text) => <div key={text}>{text}</div>) },
          ]} />
      )}
    </Section>
  );
}

function Nodes() {
  const { data, problem } = useLive<Page<Node>>("v1/nodes", nothing);
  const read_at = useMemo(() => Date.now(), [data]); // Times are relative to the read, because they do not age without a new one.
  return (
    <Section title="Nodes" aside={
      <div class="row">
        {data && <span class="dim">as of <Ago at={new Date(read_at).toISOString()} /></span>}
        <Command text="interlock nodes ls" />
      </div>
    }>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data && (
        <Table label="All nodes" rows={data.items} id={(node) => node.id}
          columns={[
            { title: "node", of: (node) => <span title={node.id}>{node.name}</span> },
            { title: "state", of: (node) => <State of={node.state} /> },
            { title: "version", of: (node) => node.version },
            { title: "address", of: (node) => node.url, wide: true },
            { title: "started", of: (node) => <Ago at={node.started_at} />, wide: true },
            { title: "seen", of: (node) => <span title={node.seen_at}>{ago(Date.parse(node.seen_at), read_at)}</span> },
            { title: "lease", of: (node) => (node.lease_until
              ? <span title={node.lease_until}>ends {ago(Date.parse(node.lease_until), read_at)}</span>
              : <span class="dim" title="it is the only node of its store">none</span>) },
          ]} />
      )}
    </Section>
  );
}

/** Shown only if there are several orgs and the API key can list them. */
function Orgs() {
  const { data, problem } = useLive<Page<Org>>(useMay("administer") ? "v1/orgs?limit=1000" : null, orgs_change);
  if (!data && !problem) return null;
  if (problem?.status === 403 || (data && data.items.length < 2)) return null;
  return (
    <Section title="Orgs" aside={<Command text="interlock orgs ls" />}>
      <ErrorMessage of={problem} />
      {data && (
        <Table label="All orgs" rows={data.items} id={(org) => org.name}
          columns={[
            { title: "org", of: (org) => org.name },
            { title: "number", of: (org) => org.number, number: true },
            { title: "created", of: (org) => <Ago at={org.created_at} />, number: true },
          ]} />
      )}
    </Section>
  );
}
