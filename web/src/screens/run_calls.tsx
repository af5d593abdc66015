// Model calls of a run, each with its hold, cost and price.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, Problem, query } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { useFeed, useLive } from "../lib/live";
import type { ModelCall, Page, Usage } from "../lib/types";
import { count, length, shell_command } from "../lib/words";
import { CallDialog, CallMarks } from "../ui/call";
import { Empty, Section, Table, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Command, Money } from "../ui/words";

const newest = 100; // Read again after events. Older calls do not change.
const older = 900;
const written_ms = 1_500; // Calls are recorded in batches, after their cost is settled.

export interface Calls {
  items: ModelCall[]; // Newest first.
  more: boolean;
  read_more: () => Promise<void>;
  problem: Problem | undefined;
  started: boolean;
}

/** All loaded calls, without a gap between the newest and the oldest. */
interface Kept {
  calls: ReadonlyMap<string, ModelCall>;
  next: string | null; // Cursor of the older calls.
}

function with_calls(calls: ReadonlyMap<string, ModelCall>, more: readonly ModelCall[]): ReadonlyMap<string, ModelCall> {
  return new Map([...calls, ...more.map((call) => [call.id, call] as const)]);
}

/** The newest calls of a run, kept up to date, and the older ones that were loaded. Use one per run. */
export function useCalls(run: string): Calls {
  const path = (after?: string) => query("v1/calls", { run, limit: after ? older : newest, after });
  const changes = useMemo(() => (event: FeedEvent) => event.data.run === run && event.type !== "appended", [run]);
  const head = useLive<Page<ModelCall>>(path(), changes);
  const [kept, set_kept] = useState<Kept>();
  const [problem, set_problem] = useState<Problem>();
  const now = useRef<Kept>();
  const turn = useRef(Promise.resolve()); // Handles one first page after the other.
  const abort = useRef(new AbortController());
  const timer = useRef(0);
  const reload = useRef(head.reload);
  reload.current = head.reload;
  const look_later = () => {
    if (timer.current !== 0) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      reload.current();
    }, written_ms);
  };
  useFeed(useCallback((event) => {
    if (event.data.run === run) look_later();
  }, [run]));
  useEffect(look_later, [run]); // A call may have been settled just before the screen was opened.
  useEffect(() => () => {
    clearTimeout(timer.current);
    abort.current.abort();
  }, []);

  const keep = (more: readonly ModelCall[], next: string | null) => {
    now.current = { calls: with_calls(now.current?.calls ?? new Map(), more), next };
    set_kept(now.current);
  };
  // More calls than one page may be new. The ones between are loaded first, so that no gap is kept.
  const take = async (page: Page<ModelCall>) => {
    if (!now.current || now.current.calls.size === 0) return keep(page.items, page.next);
    const last = [...now.current.calls.keys()].reduce((a, b) => (a > b ? a : b));
    const items = [...page.items];
    for (let next = page.next; next && items.at(-1)!.id > last;) {
      const between = await get<Page<ModelCall>>(path(next), abort.current.signal);
      items.push(...between.items);
      next = between.next;
    }
    keep(items, now.current.next);
    set_problem(undefined);
  };
  useEffect(() => {
    const page = head.data;
    if (!page) return;
    // After a failure, the next first page starts again from the kept calls.
    turn.current = turn.current.then(() => take(page)).catch((error: unknown) => {
      if (error instanceof Problem) set_problem(error);
    });
  }, [head.data]);

  const items = useMemo(() => {
    const all = with_calls(kept?.calls ?? new Map(), head.data?.items ?? []);
    return [...all.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
  }, [head.data, kept]);
  const next = kept ? kept.next : head.data?.next;
  return {
    items,
    more: Boolean(next),
    read_more: async () => {
      if (!next) return;
      const page = await get<Page<ModelCall>>(path(next), abort.current.signal);
      if (now.current?.next === next) keep(page.items, page.next);
    },
    problem: head.problem ?? problem,
    started: head.data !== undefined,
  };
}

function input_of(usage: Usage): number {
  return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
}

const us = (value: number | null) => (value === null ? "" : length(value / 1000));

export function CallsTable({ run, calls }: { run: string; calls: Calls }) {
  const [opened, open] = useState<string>();
  const [problem, set_problem] = useState<Problem>();
  const [busy, set_busy] = useState(false);
  const read_more = async () => {
    set_busy(true);
    await calls.read_more().then(() => set_problem(undefined), (error: unknown) => error instanceof Problem && set_problem(error));
    set_busy(false);
  };
  return (
    <Section title="Model calls" aside={<Command text={shell_command("interlock", "calls", "ls", "--run", run)} />}>
      <ErrorMessage of={calls.problem ?? problem} />
      {!calls.started && !calls.problem && <Loading />}
      {calls.started && calls.items.length === 0 && (
        <Empty command="interlock run -- claude">
          No model calls. Runs that Interlock starts use the gateway by default:
        </Empty>
      )}
      {calls.items.length > 0 && (
        <Table label="Model calls, newest first" rows={calls.items} id={(call) => call.id} open={(call) => open(call.id)}
          columns={[
            { title: "time", of: (call) => <button type="button" class="plain link" onClick={() => open(call.id)}><Ago at={call.at} /></button> },
            { title: "model", of: (call) => <>{call.model || <span class="dim">{call.operation}</span>} <CallMarks call={call} /></> },
            { title: "in", of: (call) => count(input_of(call.usage)), number: true, wide: true },
            { title: "out", of: (call) => count(call.usage.output_tokens), number: true, wide: true },
            { title: "held", of: (call) => <Money value={call.bound} />, number: true },
            { title: "settled", of: (call) => <>→ <Money value={call.cost} estimated={call.estimated} /></>, number: true },
            { title: "price", of: (call) => <code class="price" title={call.price}>{call.price}</code>, wide: true },
            { title: "first byte", of: (call) => us(call.first_byte_us), number: true, wide: true },
            { title: "duration", of: (call) => us(call.duration_us), number: true },
          ]} />
      )}
      {calls.more && <button type="button" disabled={busy} onClick={() => void read_more()}>Show older calls</button>}
      {opened && <CallDialog id={opened} close={() => open(undefined)} />}
    </Section>
  );
}
