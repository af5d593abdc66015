import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { json, serve } from "../testing/fake_server";
import type { FeedEvent } from "./feed";
import { type RunFilter, RunList } from "./run_list";
import type { Run } from "./types";

const everything: RunFilter = { status: "", agent: "", schedule: "", name: "" };
const rows_in_view = 20;

/** The runs of a server, which answers as the API does: the newest first, `after` and `limit`. */
class Runs {
  all: Run[] = []; // Oldest first.
  down = false;
  at_once = 0;
  private reading = 0;
  delay_ms = 0;
  readonly server = serve(async (path) => {
    if (this.down) return json({ code: "busy", detail: "busy" }, 503);
    this.at_once = Math.max(this.at_once, (this.reading += 1));
    const response = this.respond(path); // Decided now, delivered later.
    if (this.delay_ms > 0) await new Promise((resolve) => setTimeout(resolve, this.delay_ms));
    this.reading -= 1;
    return response;
  });

  add(count: number, fields: Partial<Run> = {}): Run[] {
    const added = Array.from({ length: count }, (_, i) => (
      { id: `run_${String(this.all.length + i).padStart(6, "0")}`, status: "queued", agent: "a", schedule: null, name: "", ...fields }) as Run);
    this.all.push(...added);
    return added;
  }

  private respond(path: string): Response {
    const { pathname, searchParams } = new URL(path, "http://server/");
    const one = /^\/v1\/runs\/(.+)$/.exec(pathname);
    if (one) return json(this.all.find((run) => run.id === one[1]));
    const [status, agent, after, limit] = ["status", "agent", "after", "limit"].map((name) => searchParams.get(name));
    const found = [...this.all].reverse()
      .filter((run) => (!status || status.split(",").includes(run.status)) && (!agent || run.agent === agent) && (!after || run.id < after));
    const items = found.slice(0, Number(limit));
    return json({ items, next: items.length < found.length ? items.at(-1)!.id : null });
  }
}

let runs: Runs;
let top: number;

/** A list that is drawn: after each change it says what is in view. */
function shown(filter: Partial<RunFilter> = {}): RunList {
  top = 0;
  const show = () => list.show(top, Math.min(list.ids.length, top + rows_in_view));
  const list: RunList = new RunList({ ...everything, ...filter }, show);
  list.show(0, 0);
  return list;
}

const settle = () => vi.advanceTimersByTimeAsync(5_000);
const changed = (run: Run, type = "run_changed"): FeedEvent => ({ seq: 1, at: "", type, data: { run: run.id, agent: run.agent, state: run.status } });
const ids_of = (some: Run[]) => some.map((run) => run.id).reverse();

beforeEach(() => {
  vi.useFakeTimers();
  runs = new Runs();
});
afterEach(() => void vi.useRealTimers());

test("a short list is read whole, the newest first", async () => {
  runs.add(30);
  const list = shown();
  await settle();

  expect(list.ids).toEqual(ids_of(runs.all));
  expect(list.complete).toBe(true);
  expect(list.at(0)?.id).toBe("run_000029");
  expect(list.index_of("run_000000")).toBe(29);
  expect(list.index_of("run_999999")).toBe(-1);
  expect(runs.server.requests).toHaveLength(1);
});

test("an empty list is complete", async () => {
  const list = shown();
  await settle();

  expect([list.started, list.complete, list.ids]).toEqual([true, true, []]);
});

test("of a long list only what is ahead of the view is read", async () => {
  runs.add(10_000);
  const list = shown();
  await settle();
  expect(list.ids.length).toBeGreaterThanOrEqual(1_000);
  expect(list.ids.length).toBeLessThan(2_000);
  expect(list.complete).toBe(false);

  for (let i = 0; i < 12; i += 1) {
    top = list.ids.length - rows_in_view;
    list.show(top, list.ids.length);
    await settle();
  }
  expect(list.ids).toEqual(ids_of(runs.all));
  expect(list.complete).toBe(true);
});

test("runs far from the view are let go, and read again when they come into view", async () => {
  runs.add(10_000);
  const list = shown();
  await settle();
  while (!list.complete) {
    top = list.ids.length - rows_in_view;
    list.show(top, list.ids.length);
    await settle();
  }
  expect(list.at(0)).toBeUndefined();
  expect(list.ids).toHaveLength(10_000);
  expect(runs.server.requests).toHaveLength(21); // What is in view was never let go, and so never read twice.

  top = 0;
  list.show(0, rows_in_view);
  await settle();
  expect(list.at(0)?.id).toBe(list.ids[0]);
});

test("two reads never run beside each other", async () => {
  runs.delay_ms = 300;
  runs.add(3_000);
  const list = shown();
  for (let i = 0; i < 50; i += 1) {
    list.on_event(changed(runs.add(1)[0]!));
    list.show(0, Math.min(list.ids.length, rows_in_view));
    await vi.advanceTimersByTimeAsync(100);
  }
  await settle();

  expect(runs.at_once).toBe(1);
  expect(list.ids.slice(0, 50)).toEqual(ids_of(runs.all).slice(0, 50));
});

test("a new run is first, and appears only once", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  const [run] = runs.add(1);
  list.on_event(changed(run!));
  list.on_event(changed(run!));
  await settle();

  expect(list.ids).toEqual(ids_of(runs.all));
});

test("events are read for at most every 400 ms", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  runs.server.requests.length = 0;
  runs.delay_ms = 50;
  for (let i = 0; i < 100; i += 1) {
    list.on_event(changed(runs.all[29]!, "charged"));
    await vi.advanceTimersByTimeAsync(20);
  }

  expect(runs.server.requests.length).toBeGreaterThanOrEqual(3);
  expect(runs.server.requests.length).toBeLessThanOrEqual(6);
});

test("a run in view that changed is shown as it is now", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  runs.all[29]!.status = "running";
  list.on_event(changed(runs.all[29]!));
  await settle();

  expect(list.at(0)?.status).toBe("running");
  const reads = runs.server.requests.length;
  await settle();
  expect(runs.server.requests).toHaveLength(reads);
});

test("a run that changed out of view is read when it comes into view", async () => {
  runs.add(1_000);
  const list = shown();
  await settle();
  const before = runs.server.requests.length;
  runs.all[0]!.status = "running";
  list.on_event(changed(runs.all[0]!));
  await settle();
  expect(runs.server.requests).toHaveLength(before);
  list.on_event(changed(runs.all[999]!)); // This one is in view, and is read without the other.
  await settle();
  expect(runs.server.requests).toHaveLength(before + 1);

  top = 980;
  list.show(980, 1_000);
  await settle();
  expect(list.at(999)?.status).toBe("running");
});

test("a run that no longer fits the filter leaves the list", async () => {
  runs.add(30);
  const list = shown({ status: "queued" });
  await settle();
  runs.all[29]!.status = "running";
  list.on_event(changed(runs.all[29]!));
  await settle();

  expect(list.ids).toEqual(ids_of(runs.all.slice(0, 29)));
});

test("an old run that fits the filter now takes its place by its id", async () => {
  runs.add(1_000);
  const list = shown({ status: "queued" });
  await settle();
  runs.all[500]!.status = "running";
  list.on_event(changed(runs.all[500]!));
  top = 480;
  list.show(480, 500);
  await settle();
  expect(list.index_of("run_000500")).toBe(-1);

  runs.all[500]!.status = "queued";
  list.on_event(changed(runs.all[500]!));
  await settle();
  expect(list.ids).toEqual(ids_of(runs.all));
});

test("an old run that fitted only when its event was made stays out", async () => {
  runs.add(1_000);
  runs.all[500]!.status = "running";
  const list = shown({ status: "queued" });
  await settle();
  list.on_event({ ...changed(runs.all[500]!), data: { run: "run_000500", agent: "a", state: "queued" } });
  await settle();

  expect(runs.server.requests.at(-1)).toBe("GET v1/runs/run_000500");
  expect(list.index_of("run_000500")).toBe(-1);
});

test("an event about a run that cannot fit the filter reads nothing", async () => {
  runs.add(30, { agent: "a" });
  const list = shown({ agent: "a" });
  await settle();
  const before = runs.server.requests.length;
  list.on_event(changed(runs.add(1, { agent: "b" })[0]!));
  list.on_event({ seq: 1, at: "", type: "held", data: { run: "run_000001" } });
  list.on_event({ seq: 1, at: "", type: "budget_changed", data: {} });
  await settle();

  expect(runs.server.requests).toHaveLength(before);
});

test("more new runs than one page has leave no hole", async () => {
  runs.add(300);
  const list = shown();
  await settle();
  list.on_event(changed(runs.add(700).at(-1)!));
  await settle();

  expect(list.ids).toEqual(ids_of(runs.all));
});

test("far more new runs than it reads at once leave no hole either: what was below is read anew", async () => {
  runs.add(300);
  const list = shown();
  await settle();
  list.on_event(changed(runs.add(6_000).at(-1)!));
  await settle();

  expect(list.ids).toEqual(ids_of(runs.all).slice(0, list.ids.length));
  expect(list.complete).toBe(false);
});

test("after a gap in the feed everything in view is read again", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  runs.all[25]!.status = "failed";
  runs.add(1);
  list.resync();
  await settle();

  expect(list.ids).toEqual(ids_of(runs.all));
  expect(list.of("run_000025")?.status).toBe("failed");
});

test("a change while the response is under way is not lost", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  runs.delay_ms = 300;
  list.on_event(changed(runs.all[29]!));
  await vi.advanceTimersByTimeAsync(100); // The server has responded already; the response has not arrived.
  runs.all[29]!.status = "running";
  list.on_event(changed(runs.all[29]!));
  await settle();

  expect(list.at(0)?.status).toBe("running");
});

test("a failed read is a problem until a resync, and loses no change", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  runs.down = true;
  runs.all[29]!.status = "running";
  list.on_event(changed(runs.all[29]!));
  await settle();
  expect(list.problem).toMatchObject({ status: 503 });
  expect(list.ids).toHaveLength(30);

  runs.down = false;
  list.resync();
  await settle();
  expect(list.problem).toBeUndefined();
  expect(list.at(0)?.status).toBe("running");
});

test("a closed list reads nothing more", async () => {
  runs.add(30);
  const list = shown();
  await settle();
  const before = runs.server.requests.length;
  list.on_event(changed(runs.all[29]!));
  list.close();
  list.on_event(changed(runs.all[29]!));
  await settle();

  expect(runs.server.requests).toHaveLength(before);
});
