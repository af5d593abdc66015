// Runs: list with filters, a preview, and actions on several runs.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, send } from "../lib/api";
import { feed } from "../lib/feed";
import { useKeys } from "../lib/keys";
import { useFeed, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import { choose, go, link } from "../lib/route";
import { type RunFilter, RunList } from "../lib/run_list";
import type { Page, Run as RunRow, RunStatus } from "../lib/types";
import { count as many, shell_command } from "../lib/words";
import { Log } from "../ui/log";
import { Dialog, Empty, ErrorMessage, Loading, no_right, Screen } from "../ui/parts";
import { type VirtualHandle, VirtualTable } from "../ui/virtual";
import { Ago, Id, State } from "../ui/words";
import { Run } from "./run";
import { changes_run, has_ended, RunActions, RunFacts, short_workspace, Spent, Duration } from "./run_parts";

const statuses: RunStatus[] = ["queued", "starting", "running", "paused", "succeeded", "failed", "cancelled", "timed_out", "lost"];
const filters = ["status", "agent", "schedule", "name"] as const;
const row_height = 34;

export function Runs({ path, query }: { path: string[]; query: URLSearchParams }) {
  return path[0] ? <Run key={path[0]} id={path[0]} /> : <List query={query} />;
}

const columns = [
  { title: "run", size: "s-id", of: (run: RunRow) => <Id of={run.id} /> },
  { title: "agent", size: "s-agent", of: (run: RunRow) => <span title={run.agent}>{run.agent}</span> },
  { title: "name", size: "s-name", of: (run: RunRow) => <span title={run.name}>{run.name}</span> },
  { title: "state", size: "s-state", of: (run: RunRow) => <State of={run.status} title={run.reason} /> },
  { title: "workspace", size: "s-workspace", of: (run: RunRow) => <span title={run.workspace ?? ""}>{short_workspace(run)}</span>, wide: true },
  { title: "created", size: "s-time", of: (run: RunRow) => <Ago at={run.created_at} />, number: true, wide: true },
  { title: "duration", size: "s-time", of: (run: RunRow) => <Duration run={run} />, number: true },
  { title: "tokens", size: "s-count", of: (run: RunRow) => many(run.tokens), number: true, wide: true },
  { title: "spent", size: "s-money", of: (run: RunRow) => <Spent run={run} />, number: true },
];

/** The list for a filter. The component renders again after each change of the list. */
function useRuns(filter: RunFilter): RunList {
  const [, draw] = useState(0);
  const list = useMemo(() => new RunList(filter, () => draw((n) => n + 1)), filters.map((name) => filter[name]));
  useEffect(() => {
    const off = feed.on_resync(() => list.resync());
    list.show(0, 0);
    return () => {
      off();
      list.close();
    };
  }, [list]);
  useFeed(useCallback((event) => list.on_event(event), [list]));
  return list;
}

function List({ query }: { query: URLSearchParams }) {
  const asked = (name: string) => query.get(name) ?? "";
  const filter: RunFilter = { status: asked("status"), agent: asked("agent"), schedule: asked("schedule"), name: asked("name") };
  const list = useRuns(filter);
  const peeked = query.get("peek") ?? undefined;
  const [current, draw_current] = useState(peeked);
  const now = useRef({ current, peeked }); // Keys may arrive faster than renders.
  now.current.peeked = peeked;
  const set_current = (id: string | undefined) => draw_current((now.current.current = id));
  const peek = (id: string | undefined) => {
    now.current.peeked = id;
    choose({ peek: id });
  };
  const [marked, set_marked] = useState<ReadonlySet<string>>(new Set());
  const [newest, set_newest] = useState<string>(); // First run of the list when its top was last in view.
  const table = useRef<VirtualHandle>(null);
  const last_marked = useRef<string>();
  const filtered = filters.some((name) => filter[name]);

  // The preview can also change through the address, such as by the back button.
  useEffect(() => {
    if (peeked) set_current(peeked);
  }, [peeked]);

  // A new filter clears the marks, so that no hidden run is cancelled.
  useEffect(() => set_marked(new Set()), [list]);

  const move_to = (index: number) => {
    const id = list.ids[Math.max(0, Math.min(list.ids.length - 1, index))];
    if (id === undefined) return;
    set_current(id);
    table.current?.reveal(list.index_of(id));
    table.current?.focus(); // So that Enter opens the row and does not press the last used button.
    if (now.current.peeked) peek(id);
  };
  const move = (step: number) => move_to(now.current.current === undefined ? 0 : list.index_of(now.current.current) + step);
  const mark = (index: number, range: boolean) => {
    const id = list.ids[index];
    if (id === undefined) return;
    const from = range && last_marked.current ? list.index_of(last_marked.current) : -1;
    last_marked.current = id;
    set_marked((before) => {
      const next = new Set(before);
      if (from >= 0) for (const each of list.ids.slice(Math.min(from, index), Math.max(from, index) + 1)) next.add(each);
      else if (!next.delete(id)) next.add(id);
      return next;
    });
  };
  const keys = useRef<Record<string, () => void>>({});
  keys.current = {
    j: () => move(1),
    k: () => move(-1),
    x: () => now.current.current !== undefined && mark(list.index_of(now.current.current), false),
    Enter: () => {
      const { current, peeked } = now.current;
      if (current === undefined) return;
      if (peeked === current) go("runs", current);
      else peek(current);
    },
    Escape: () => {
      if (document.activeElement instanceof HTMLInputElement) table.current?.focus();
      else if (now.current.peeked) peek(undefined);
      else if (marked.size > 0) set_marked(new Set());
      else set_current(undefined);
    },
    "/": () => document.getElementById("runs-name")?.focus(),
  };
  useKeys(useMemo(() => Object.fromEntries(Object.keys(keys.current).map((key) => [key, () => keys.current[key]!()])), []));

  const show = useCallback((first: number, last: number, at_top: boolean) => {
    list.show(first, last);
    if (at_top) set_newest(list.ids[0]);
  }, [list]);
  const newer = newest === undefined ? 0 : Math.max(0, list.index_of(newest));

  return (
    <Screen title="Runs" summary="State, duration and cost of each run" command={command_of(filter)}>
      <div class="runs" data-peek={peeked !== undefined || undefined}>
        <Filters filter={filter} filtered={filtered} />
        <div class="row bulk">
          <span class="dim" role="status">
            {list.started && `${list.ids.length.toLocaleString("en")} ${list.ids.length === 1 ? "run" : "runs"}${list.complete ? "" : ", more to load"}`}
            {marked.size > 0 && `, ${marked.size.toLocaleString("en")} marked`}
          </span>
          <button type="button" class="plain" disabled={list.ids.length === 0} onClick={() => set_marked(new Set(list.ids))}>Mark all</button>
          <button type="button" class="plain" disabled={marked.size === 0} onClick={() => set_marked(new Set())}>Unmark all</button>
          <Bulk marked={marked} list={list} what="cancel" />
          <Bulk marked={marked} list={list} what="retry" />
          {newer > 0 && <button type="button" class="primary newer" onClick={() => table.current?.reveal(0)}>{many(newer)} newer ↑</button>}
        </div>
        <ErrorMessage of={list.problem} />
        {!list.started && !list.problem && <Loading />}
        {list.started && list.ids.length === 0 && (filtered
          ? <Empty>No matching runs. <button type="button" onClick={clear}>Clear filters</button></Empty>
          : <Empty command="interlock run -- claude">No runs. Start one:</Empty>)}
        {list.ids.length > 0 && (
          <div class="beside">
            <VirtualTable label="Runs, newest first" columns={columns} count={list.ids.length} complete={list.complete} row_height={row_height}
              id_at={(index) => list.ids[index]!} row_at={(index) => list.at(index)} index_of={(id) => list.index_of(id)}
              current={current} marked={marked} mark={mark} move={move} show={show} handle={table}
              open={(index) => {
                set_current(list.ids[index]);
                peek(list.ids[index]);
                table.current?.focus();
              }} />
            {peeked && <Peek key={peeked} id={peeked} />}
          </div>
        )}
      </div>
    </Screen>
  );
}

function clear(): void {
  choose({ ...Object.fromEntries(filters.map((name) => [name, undefined])) });
}

function command_of(filter: RunFilter): string {
  return shell_command("interlock", "runs", "ls", ...filters.filter((name) => filter[name]).flatMap((name) => [`--${name}`, filter[name]]));
}

const agents_change = ["agent_changed", "agent_archived"];
const schedules_change = ["schedule_changed", "schedule_deleted"];

function Filters({ filter, filtered }: { filter: RunFilter; filtered: boolean }) {
  const agents = useLive<Page<{ name: string }>>("v1/agents?limit=1000", agents_change);
  const schedules = useLive<Page<{ name: string }>>("v1/schedules?limit=1000", schedules_change);
  const chosen = new Set(filter.status.split(",").filter(Boolean));
  const toggle = (status: string) => {
    const next = statuses.filter((each) => (each === status ? !chosen.has(each) : chosen.has(each)));
    choose({ status: next.join(",") });
  };
  const find = (text: string) => {
    if (/^run_\w{20,}$/.test(text)) go("runs", text);
    else choose({ name: text });
  };
  return (
    <form class="row filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <Choice label="agent" value={filter.agent} of={agents.data?.items} />
      <Choice label="schedule" value={filter.schedule} of={schedules.data?.items} />
      <label class="inline">
        <span class="dim">name or id</span>
        <input key={filter.name} id="runs-name" type="search" defaultValue={filter.name} placeholder="/" autocomplete="off" spellcheck={false}
          onChange={(event) => find(event.currentTarget.value.trim())} />
      </label>
      <button type="button" class="plain" disabled={!filtered} onClick={clear}>Clear filters</button>
      <fieldset class="row">
        <legend class="unseen">State</legend>
        {statuses.map((status) => (
          <button key={status} type="button" class="chip" aria-pressed={chosen.has(status)} onClick={() => toggle(status)}><State of={status} /></button>
        ))}
      </fieldset>
    </form>
  );
}

function Choice({ label, value, of }: { label: "agent" | "schedule"; value: string; of: { name: string }[] | undefined }) {
  const names = of?.map((each) => each.name) ?? [];
  if (value && !names.includes(value)) names.unshift(value);
  return (
    <label class="inline">
      <span class="dim">{label}</span>
      <select value={value} onChange={(event) => choose({ [label]: event.currentTarget.value })}>
        <option value="">any</option>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

function Peek({ id }: { id: string }) {
  const changes = useMemo(() => changes_run(id), [id]);
  const { data: run, problem } = useLive<RunRow>(`v1/runs/${id}`, changes);
  return (
    <aside class="card peek" aria-label={`Run ${id}`}>
      <header>
        <h2><a href={link("runs", id)}>{run?.name || <code>{id}</code>}</a></h2>
        <button type="button" class="plain" onClick={() => choose({ peek: undefined })} aria-label="Close">✕</button>
      </header>
      <ErrorMessage of={problem} />
      {!run && !problem && <Loading />}
      {run && (
        <>
          <div class="row">
            <State of={run.status} />
            <span class="grow" />
            <RunActions run={run} />
          </div>
          <RunFacts run={run} />
          {run.supervised && <Log run={id} small />}
          <p class="dim"><kbd>Enter</kbd> opens the run, <kbd>Esc</kbd> closes the preview</p>
        </>
      )}
    </aside>
  );
}

const at_once = 4;
const failures_shown = 100;

/** Cancels or retries all marked runs, a few at a time, and lists those that failed. */
function Bulk({ marked, list, what }: { marked: ReadonlySet<string>; list: RunList; what: "cancel" | "retry" }) {
  const allowed = useMay("operate");
  const [ids, set_ids] = useState<string[]>(); // Runs that the dialog is about.
  const [done, set_done] = useState<number>();
  const [failed, set_failed] = useState<{ id: string; problem: Problem }[]>([]);
  const halted = useRef(false);
  const fits = (id: string) => {
    const run = list.of(id);
    return !run || has_ended(run) === (what === "retry"); // The server decides about a run that is not loaded.
  };
  const ask = () => {
    set_ids([...marked].filter(fits));
    set_done(undefined);
    set_failed([]);
    halted.current = false;
  };
  const close = () => {
    halted.current = true;
    set_ids(undefined);
  };
  const act = async () => {
    const left = [...ids!];
    let finished = 0;
    set_done(0);
    const worker = async () => {
      for (let id = left.shift(); id !== undefined && !halted.current; id = left.shift()) {
        const run = id;
        try {
          await send("POST", `v1/runs/${run}/${what}`);
        } catch (error) {
          const problem = error instanceof Problem ? error : new Problem(-1, "unknown", String(error));
          set_failed((before) => [...before, { id: run, problem }]);
        }
        set_done((finished += 1));
      }
    };
    await Promise.all(Array.from({ length: at_once }, worker));
  };
  const verb = what === "cancel" ? "Cancel" : "Retry";
  const total = ids?.length ?? 0;
  const finished = done === total;
  const number = (of: number) => `${of.toLocaleString("en")} ${of === 1 ? "run" : "runs"}`;
  return (
    <>
      <button type="button" class={what === "cancel" ? "danger" : ""} disabled={!allowed || marked.size === 0}
        title={allowed ? undefined : no_right} onClick={ask}>
        {verb} runs …
      </button>
      {ids && (
        <Dialog title={`${verb} ${number(total)}?`} close={close}>
          {total < marked.size && (
            <p>{number(marked.size - total)} of the marked runs {what === "cancel" ? "have ended already" : "have not ended yet"} and are skipped.</p>
          )}
          {done === undefined
            ? total > 0 && (
              <p>{what === "cancel" ? "The runs are asked to end. Unsaved work is lost." : "Each starts again as a new run, with a new cost."}</p>
            )
            : (
              <>
                <progress max={total} value={done} aria-label="Progress" />
                <p role="status">{done.toLocaleString("en")} of {number(total)}{failed.length > 0 && `, ${failed.length.toLocaleString("en")} failed`}</p>
                {failed.length > 0 && (
                  <ul class="failures">
                    {failed.slice(0, failures_shown).map(({ id, problem }) => (
                      <li key={id}><Id of={id} /> {problem.detail} <code class="dim">{problem.code}</code></li>
                    ))}
                    {failed.length > failures_shown && <li>and {number(failed.length - failures_shown)} more</li>}
                  </ul>
                )}
              </>
            )}
          <div class="row end">
            <button type="button" onClick={close}>{finished ? "Close" : done === undefined ? "Back" : "Skip the rest"}</button>
            {done === undefined && (
              <button type="button" class={what === "cancel" ? "danger" : "primary"} disabled={total === 0} onClick={() => void act()}>
                {verb} {number(total)}
              </button>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}
