// Schedules: list, and a timeline of their ticks of the last and the next twelve hours.
import { useMemo, useState } from "preact/hooks";
import { query, send } from "../lib/api";
import { useNow } from "../lib/clock";
import type { FeedEvent } from "../lib/feed";
import { refresh, useLive } from "../lib/live";
import { link } from "../lib/route";
import type { Page, PastTick, Schedule } from "../lib/types";
import { absolute, ago, count, length, spoken } from "../lib/words";
import { cron_words, every_words, seconds_words } from "../lib/cron";
import { More, useKept, useList } from "../ui/list";
import { Action, Empty, Section, Table, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Command, Id, State } from "../ui/words";

const schedules_change = ["schedule_changed", "schedule_deleted", "schedule_fired", "schedule_skipped", "wake_coalesced"];

export function Schedules() {
  const schedules = useList<Schedule>("v1/schedules", schedules_change);
  const { data, problem } = schedules;
  return (
    <>
      {data && data.items.length > 0 && <Timeline schedules={data.items} />}
      <Section title="Schedules" aside={<Command text="interlock schedules ls" />}>
        <ErrorMessage of={problem} />
        {!data && !problem && <Loading />}
        {data?.items.length === 0 && (
          <Empty command="interlock schedules put nightly --agent coder --cron '0 3 * * *'">No schedules. Create one:</Empty>
        )}
        {data && data.items.length > 0 && (
          <Table label="All schedules" rows={data.items} id={(schedule) => schedule.name}
            columns={[
              { title: "schedule", of: (schedule) => <span class="whole">{schedule.name}</span> },
              { title: "agent", of: (schedule) => <a href={`${link("agents")}?agent=${encodeURIComponent(schedule.agent)}`}>{schedule.agent}</a>, wide: true },
              { title: "when", of: (schedule) => <When schedule={schedule} /> },
              { title: "next", of: (schedule) => (schedule.enabled ? <Ago at={schedule.next_at} /> : <State of="paused" />) },
              { title: "overlap, missed", of: (schedule) => <Otherwise schedule={schedule} />, wide: true },
              { title: "fired", of: (schedule) => count(schedule.fired), number: true, wide: true },
              { title: "skipped", of: (schedule) => count(schedule.skipped), number: true, wide: true },
              { title: "coalesced", of: (schedule) => count(schedule.coalesced), number: true, wide: true },
              { title: "actions", untitled: true, of: (schedule) => <Buttons schedule={schedule} /> },
            ]} />
        )}
        <More of={schedules} command="interlock schedules ls" />
      </Section>
    </>
  );
}

const overlaps: Record<string, string> = { skip: "skip", queue: "queue", replace: "cancel the other", allow: "run both" };

/** Rules for a tick while the last run is live, and for ticks that were due while the server was down. */
function Otherwise({ schedule }: { schedule: Schedule }) {
  const missed = schedule.missed === "all" ? `run up to ${schedule.missed_max}` : schedule.missed === "one" ? "run one" : "skip";
  const overlap = overlaps[schedule.overlap] ?? schedule.overlap;
  return <span title={`while the last run is live: ${overlap}; for missed ticks: ${missed}`}>{overlap}, {missed}</span>;
}

function When({ schedule }: { schedule: Schedule }) {
  const words = schedule.every_s ? every_words(schedule.every_s) : cron_words(schedule.cron ?? "");
  const jitter = schedule.jitter_s > 0 ? `, up to ${seconds_words(schedule.jitter_s)} later` : "";
  return (
    <>
      <span title={schedule.cron ?? undefined}>{words ?? <code>{schedule.cron}</code>}{jitter}</span>
      {schedule.cron && schedule.timezone !== "UTC" && <small class="dim under">{schedule.timezone}</small>}
    </>
  );
}

function Buttons({ schedule }: { schedule: Schedule }) {
  const [triggered, set_triggered] = useState<string>();
  const path = `v1/schedules/${encodeURIComponent(schedule.name)}`;
  return (
    <div class="buttons">
      {triggered && <Id of={triggered} />}
      <Action needs="act" title="Start a run now, or use the queued one"
        act={async () => set_triggered((await send<{ run: string }>("POST", `${path}/wake`))?.run)}>
        Trigger schedule
      </Action>
      <Action act={async () => { await send("POST", `${path}/${schedule.enabled ? "pause" : "resume"}`); refresh("v1/schedules"); }}>
        {schedule.enabled ? "Pause schedule" : "Resume schedule"}
      </Action>
    </div>
  );
}

// The timeline groups ticks into bins, so that a schedule that fires twice a minute draws no more marks than one that fires
// twice a day. The mark of a bin shows its worst tick.
const bin_ms = 10 * 60_000;
const span_ms = 24 * 3_600_000;
const half_ms = span_ms / 2;
const past_max = 500; // Latest ticks per schedule.
const coming_max = 150;
const late_ms = 60_000; // A tick is late if it fires later than its jitter plus this.

type Kind = "coming" | "fired" | "working" | "late" | "skipped" | "failed"; // Worst last.
const kinds: Kind[] = ["coming", "fired", "working", "late", "skipped", "failed"];
const shapes: Record<Kind, string> = {
  coming: "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0",
  fired: "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0",
  working: "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0",
  late: "M0,-5L5,0L0,5L-5,0Z",
  skipped: "M0,-4.5L5,4L-5,4Z",
  failed: "M-4,-4H4V4H-4Z",
};
const legend: Record<Kind, string> = {
  fired: "fired", working: "running", late: "late", skipped: "skipped", failed: "run failed", coming: "coming",
};

function kind_of(tick: PastTick, schedule: Schedule): Kind {
  if (tick.outcome === "skipped") return "skipped";
  if (tick.run_status === "failed" || tick.run_status === "timed_out" || tick.run_status === "lost") return "failed";
  if ((tick.late_ms ?? 0) > schedule.jitter_s * 1_000 + late_ms) return "late";
  return tick.run_status === null || tick.run_status === "succeeded" || tick.run_status === "cancelled" ? "fired" : "working";
}

/** Past and coming ticks of a schedule. Two calls with the same arguments share one read. */
function useTicks(schedule: Schedule, from: number) {
  // A run_ended event has no schedule, so the runs of unfinished ticks are remembered.
  const open = useMemo(() => new Set<string>(), [schedule.name]);
  const [past_changes, coming_changes] = useMemo(() => {
    const of_it = (event: FeedEvent) => event.data.schedule === schedule.name;
    return [(event: FeedEvent) => of_it(event) || (event.type === "run_ended" && open.has(String(event.data.run))), of_it];
  }, [schedule.name]);
  const past = useLive<Page<PastTick>>(query("v1/ticks", { schedule: schedule.name, from: new Date(from).toISOString(), limit: past_max }), past_changes);
  const coming = useLive<Page<{ tick: string; at: string }>>(
    schedule.enabled ? `v1/schedules/${encodeURIComponent(schedule.name)}/next?count=${coming_max}` : null, coming_changes);
  const ticks = useKept(past.data, schedule.name);
  const next = useKept(coming.data, schedule.name);
  return useMemo(() => {
    const mine = ticks?.items.filter((tick) => tick.schedule === schedule.name && Date.parse(tick.at) >= from) ?? [];
    open.clear();
    for (const tick of mine) if (tick.run && kind_of(tick, schedule) === "working") open.add(tick.run);
    const soon = schedule.enabled ? (next?.items ?? []).map((each) => each.at) : [];
    return {
      past: mine,
      more_past: Boolean(ticks?.next),
      coming: soon.filter((at) => Date.parse(at) < from + span_ms),
      // More ticks are due than were asked for.
      coming_goes_on: soon.length >= coming_max && Date.parse(soon[soon.length - 1]!) < from + span_ms,
      problem: past.problem ?? coming.problem,
    };
  }, [ticks, next, from, schedule.enabled, past.problem, coming.problem]);
}

interface Mark {
  at: number; // Percent of the width.
  kind: Kind;
  words: string;
}

function marks_of(times: { at: number; kind: Kind }[], from: number): Mark[] {
  const bins = new Map<string, { at: number; kind: Kind }[]>();
  for (const time of times) {
    const bin = `${Math.floor(time.at / bin_ms)} ${time.kind === "coming"}`;
    bins.set(bin, [...(bins.get(bin) ?? []), time]);
  }
  return [...bins.values()].map((each) => {
    const worst = each.reduce((one, other) => (kinds.indexOf(other.kind) > kinds.indexOf(one.kind) ? other : one));
    const middle = each.length === 1 ? worst.at : each.reduce((sum, one) => sum + one.at, 0) / each.length;
    const counts = kinds.map((kind) => [kind, each.filter((one) => one.kind === kind).length] as const).filter(([, many]) => many > 0);
    return {
      at: ((middle - from) / span_ms) * 100,
      kind: worst.kind,
      words: `${clock(middle)}: ${counts.map(([kind, many]) => (many === 1 && each.length === 1 ? legend[kind] : `${many} ${legend[kind]}`)).join(", ")}`,
    };
  });
}

const clock = (at: number) => new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

function Timeline({ schedules }: { schedules: Schedule[] }) {
  const now = useNow(60_000);
  const [open, set_open] = useState(false);
  const from = Math.floor(now / bin_ms) * bin_ms - half_ms;
  const hours = useMemo(() => {
    const first = new Date(from);
    first.setMinutes(0, 0, 0);
    return Array.from({ length: 26 }, (_, i) => first.getTime() + i * 3_600_000)
      .filter((at) => at > from && at < from + span_ms && new Date(at).getHours() % 3 === 0)
      .map((at) => ({ at, x: ((at - from) / span_ms) * 100 }));
  }, [from]);
  return (
    <Section title="Last and next 12 hours">
      <figure class="ticks">
        <div class="lane hours" aria-hidden="true">
          <span />
          <svg>{hours.map((hour) => <text key={hour.at} x={`${hour.x}%`} y="13" text-anchor="middle">{clock(hour.at)}</text>)}</svg>
        </div>
        {schedules.map((schedule) => (
          <Lane key={schedule.name} schedule={schedule} from={from} now={now} hours={hours.map((hour) => hour.x)} />
        ))}
        <figcaption class="legend">
          {kinds.slice(1).concat("coming").map((kind) => (
            <span key={kind}><svg class="sign" viewBox="-6 -6 12 12" aria-hidden="true"><path class={kind} d={shapes[kind]} /></svg>{legend[kind]}</span>
          ))}
          <details open={open} onToggle={(event) => set_open(event.currentTarget.open)}>
            <summary>as a table</summary>
            {open && (
              <div class="scroll short" tabIndex={0} role="region" aria-label="Ticks, as a table">
                <table>
                  <thead><tr>{["schedule", "time", "result", "run", "reason"].map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
                  {schedules.map((schedule) => <Rows key={schedule.name} schedule={schedule} from={from} now={now} />)}
                </table>
              </div>
            )}
          </details>
        </figcaption>
      </figure>
    </Section>
  );
}

function Lane({ schedule, from, now, hours }: { schedule: Schedule; from: number; now: number; hours: number[] }) {
  const ticks = useTicks(schedule, from);
  const marks = useMemo(() => marks_of([
    ...ticks.coming.map((at) => ({ at: Date.parse(at), kind: "coming" as const })),
    ...ticks.past.map((tick) => ({ at: Date.parse(tick.at), kind: kind_of(tick, schedule) })), // Drawn over the coming ticks.
  ], from), [ticks, from]);
  const here = ((now - from) / span_ms) * 100;
  const first = Math.min(here, ...marks.map((mark) => mark.at));
  const last = Math.max(here, ...marks.map((mark) => mark.at));
  const failed = ticks.past.filter((tick) => kind_of(tick, schedule) === "failed").length;
  const skipped = ticks.past.filter((tick) => tick.outcome === "skipped").length;
  const words = `${schedule.name}: ${ticks.past.length} ticks in 12 hours, ${skipped} skipped, ${failed} failed; `
    + (schedule.enabled ? `next ${schedule.next_at ? ago(Date.parse(schedule.next_at), now) : "never"}` : "paused");
  return (
    <div class="lane">
      <span class={schedule.enabled ? "" : "dim"} title={schedule.name}>{schedule.name}</span>
      <svg role="img" aria-label={words}>
        {hours.map((x) => <line key={x} class="hour" x1={`${x}%`} x2={`${x}%`} y1="0" y2="100%" />)}
        <line class="axis" x1="0" x2="100%" y1="50%" y2="50%" />
        {ticks.more_past && <line class="goes_on" x1="0" x2={`${first}%`} y1="50%" y2="50%" />}
        {ticks.coming_goes_on && <line class="goes_on" x1={`${last}%`} x2="100%" y1="50%" y2="50%" />}
        <line class="now" x1={`${here}%`} x2={`${here}%`} y1="0" y2="100%" />
        {marks.map((mark) => (
          <svg key={`${mark.at} ${mark.kind}`} x={`${mark.at}%`} y="50%" overflow="visible" width="1" height="1">
            <path class={mark.kind} d={shapes[mark.kind]}><title>{mark.words}</title></path>
          </svg>
        ))}
      </svg>
      <ErrorMessage of={ticks.problem} />
    </div>
  );
}

const rows_max = 100;

/** The same ticks as rows: coming ticks first, then past ones, newest first. */
function Rows({ schedule, from, now }: { schedule: Schedule; from: number; now: number }) {
  const ticks = useTicks(schedule, from);
  return (
    <tbody>
      {ticks.coming.slice(0, 10).reverse().map((at) => (
        <tr key={at}><td>{schedule.name}</td><td title={absolute(at)}>{clock(Date.parse(at))}, {ago(Date.parse(at), now)}</td><td>coming</td><td /><td /></tr>
      ))}
      {ticks.past.slice(0, rows_max).map((tick) => (
        <tr key={`${tick.at} ${tick.outcome} ${tick.run ?? ""}`}>
          <td>{schedule.name}</td>
          <td title={absolute(tick.at)}>{clock(Date.parse(tick.at))}, {ago(Date.parse(tick.at), now)}</td>
          <td>
            {spoken(tick.outcome)}{tick.run_status && <>, <State of={tick.run_status} /></>}
            {kind_of(tick, schedule) === "late" && `, ${length(tick.late_ms ?? 0)} late`}
          </td>
          <td><Id of={tick.run} /></td>
          <td>{tick.reason}</td>
        </tr>
      ))}
      {(ticks.past.length > rows_max || ticks.more_past) && (
        <tr><td colSpan={5} class="dim">Show older ticks: <code>interlock schedules history {schedule.name}</code></td></tr>
      )}
    </tbody>
  );
}
