// Now: live runs, cost per minute, and problems.
import { useMemo, useState } from "preact/hooks";
import { of_incidents, of_money, of_runs, of_status } from "../lib/changes";
import { useNow } from "../lib/clock";
import { useLive } from "../lib/live";
import { link } from "../lib/route";
import type { Budget, Incident, Page, Run, SpendMinutes, Status } from "../lib/types";
import { count, exact, height, length, nanos, percent, rounded } from "../lib/words";
import { Chart } from "../ui/chart";
import { ReadError } from "../ui/list";
import { Empty, Screen, Section, Table, Tile, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Command, Id, Money, State } from "../ui/words";

const minutes_shown = 60;
const incidents_shown = 6; // The most severe come first.

export function Now() {
  return (
    <Screen title="Now" summary="Live runs, cost per minute, and problems" command="interlock status">
      <Tiles />
      <div class="columns">
        <Burn />
        <Incidents />
      </div>
      <LiveRuns />
    </Screen>
  );
}

/** Budget of the whole org: the daily one, if there is one. */
function todays(budgets: Budget[]): Budget | undefined {
  const whole = budgets.filter((each) => each.metric === "usd" && Object.keys(each.scope).length === 0);
  return whole.find((each) => each.window.kind === "day") ?? whole[0];
}

function Tiles() {
  const status = useLive<Status>("v1/status", of_status);
  const budgets = useLive<Page<Budget>>("v1/budgets?limit=500", of_money);
  const day = useLive<{ total: string }>(`v1/spend?from=${new Date().toISOString().slice(0, 10)}`, of_money);
  if (!status.data) return status.problem ? <ReadError of={status.problem} /> : <Loading />;
  const limit = todays(budgets.data?.items ?? []);
  const spent = nanos(day.data?.total ?? "0");
  const share = limit ? percent(nanos(limit.settled) + nanos(limit.held), nanos(limit.limit)) : 0;
  return (
    <div class="tiles">
      <Tile name="running" value={status.data.live_runs} href={`${link("runs")}?status=starting,running,paused`} note={`${count(status.data.agents)} agents`} />
      <Tile name="queued" value={status.data.queued_runs} href={`${link("runs")}?status=queued`} tone={status.data.queued_runs > 0 ? "wait" : ""} note="runs" />
      <Tile name="spent today" value={<Money value={spent} />} href={link("budgets")} tone={share >= 90 ? "bad" : ""}
        note={limit ? <>{limit.window.kind === "day" ? "" : `${limit.window.kind}: `}<Money value={limit.settled} /> of <Money value={limit.limit} /></> : "no budget for the whole org"} />
      <Tile name="held" value={<Money value={status.data.held} />} note={`${count(status.data.open_holds)} open holds`} href={link("budgets")} />
    </div>
  );
}

function Burn() {
  const { data, problem } = useLive<SpendMinutes>(`v1/spend/minutes?minutes=${minutes_shown}`, of_money);
  const budgets = useLive<Page<Budget>>("v1/budgets?limit=500", of_money);
  const now = useNow(60_000);
  const last = Math.floor((data ? Math.max(Date.parse(data.to), now) : now) / 60_000);
  const limit = todays(budgets.data?.items ?? []);
  const drawn = useMemo(() => {
    const spent = new Map((data?.items ?? []).map((each) => [Date.parse(each.at) / 60_000, nanos(each.cost)]));
    const minutes = Array.from({ length: minutes_shown }, (_, i) => last - minutes_shown + 1 + i);
    const costs = minutes.map((minute) => spent.get(minute) ?? 0n);
    // Cost per minute that would use up the rest of the budget evenly until its window resets.
    const left_ms = limit ? Date.parse(limit.window.end ?? "") - last * 60_000 : 0;
    const left = limit ? nanos(limit.limit) - nanos(limit.settled) : 0n;
    const even = limit && left_ms > 0 && left > 0n && limit.window.kind !== "total" ? (left * 60_000n) / BigInt(Math.round(left_ms)) : undefined;
    return { times: minutes.map((minute) => minute * 60), costs, even };
  }, [data, last, limit?.settled, limit?.limit]);
  const total = drawn.costs.reduce((sum, each) => sum + each, 0n);
  const recent = drawn.costs.slice(-6, -1).reduce((sum, each) => sum + each, 0n) / 5n;
  return (
    <Section title="Spend per minute" aside={<span class="dim"><Money value={recent} />/min in the last 5 minutes, <Money value={total} /> in the last hour</span>}>
      <ReadError of={problem} />
      <Chart label={`Spend per minute in the last hour: ${rounded(total)} in total`} times={drawn.times}
        lines={[
          { name: "spent", tone: "accent", bars: true, values: drawn.costs.map(height) },
          ...(drawn.even === undefined ? [] : [{ name: `even use of ${limit!.name}`, tone: "limit" as const, dashed: true, values: drawn.times.map(() => height(drawn.even!)) }]),
        ]}
        figure={(value) => rounded(BigInt(Math.round(value * 1e9)))}
        rows={{
          heads: ["minute", "spent"],
          cells: drawn.times.map((time, i) => [new Date(time * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }), `$${exact(drawn.costs[i]!)}`]).reverse(),
        }} />
    </Section>
  );
}

function subject_link(incident: Incident): string | undefined {
  if (incident.kind.startsWith("budget")) return link("budgets", incident.subject);
  if (incident.kind === "runs_failed") return `${link("runs")}?agent=${encodeURIComponent(incident.subject)}&status=failed,timed_out,lost`;
  if (incident.kind === "run_waiting") return link("runs", incident.subject);
  if (incident.kind.startsWith("agent")) return link("agents");
  if (incident.kind.startsWith("upstream") || incident.kind.startsWith("models")) return link("gateway");
  if (incident.kind === "promise_broken") return link("system");
  return undefined;
}

function Incidents() {
  const { data, problem } = useLive<Page<Incident>>("v1/incidents", of_incidents);
  const [all, show_all] = useState(false);
  const shown = all ? data?.items : data?.items.slice(0, incidents_shown);
  const more = (data?.items.length ?? 0) - incidents_shown;
  return (
    <Section title="Needs attention" aside={<Command text="interlock incidents" />}>
      <ReadError of={problem} />
      {data?.items.length === 0 && <p class="empty good">No problems.</p>}
      <ul class="incidents">
        {shown?.map((each) => {
          const href = subject_link(each);
          return (
            <li key={each.kind + each.subject}>
              <State of={each.level} />
              <div>
                {href ? <a href={href}>{each.title}</a> : each.title} {each.since && <small class="dim"><Ago at={each.since} /></small>}
                <div class="dim">{each.detail}</div>
                {each.command && <Command text={each.command} />}
              </div>
            </li>
          );
        })}
      </ul>
      {more > 0 && <button type="button" onClick={() => show_all(!all)}>{all ? "Show fewer" : `Show ${more} more`}</button>}
    </Section>
  );
}

function LiveRuns() {
  const { data, problem } = useLive<Page<Run>>("v1/runs?status=running,starting,paused,queued&limit=50", of_runs);
  const now = useNow();
  const since = (at: string | null) => (at ? length(Math.max(0, now - Date.parse(at))) : "");
  return (
    <Section title="Live and queued runs" aside={<Command text="interlock runs ls --status queued,starting,running,paused" />}>
      {data?.next && <p class="dim">The newest {data.items.length} runs. <a href={`${link("runs")}?status=queued,starting,running,paused`}>Show all</a></p>}
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty command="interlock run -- claude">No live or queued runs. Start one:</Empty>}
      {data && data.items.length > 0 && (
        <Table label="Live and queued runs" rows={data.items} id={(run) => run.id} open={(run) => (location.hash = link("runs", run.id))}
          columns={[
            { title: "run", of: (run) => <Id of={run.id} /> },
            { title: "agent", of: (run) => run.agent },
            { title: "state", of: (run) => <State of={run.status} title={run.reason} /> },
            { title: "workspace", of: (run) => <span title={run.workspace ?? ""}>{run.workspace?.split("/").slice(-2).join("/") ?? ""}</span>, wide: true },
            { title: "duration", of: (run) => since(run.status === "queued" ? run.created_at : run.admitted_at), number: true },
            { title: "tokens", of: (run) => count(run.tokens), number: true, wide: true },
            { title: "spent", of: (run) => <Money value={run.spent} />, number: true },
          ]} />
      )}
    </Section>
  );
}
