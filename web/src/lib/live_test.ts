import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { json, serve } from "../testing/fake_server";
import type { FeedEvent } from "./feed";
import { refresh, source_of } from "./live";

const event = (type: string, data = {}): FeedEvent => ({ seq: 1, at: "", type, data });
const never: string[] = [];
let paths = 0;
const new_path = () => `v1/things/${(paths += 1)}`; // Sources are shared by all tests of a file.

/** A source that is shown. */
function shown(path: string, changes: Parameters<typeof source_of>[1] = never) {
  const source = source_of(path, changes);
  const draw = vi.fn();
  source.listeners.add(draw);
  source.refresh_if_stale();
  return { source, draw };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a path is read once for all that show it, and each is told", async () => {
  const server = serve(() => json({ n: 1 }));
  const path = new_path();
  const one = shown(path);
  const other = shown(path);
  await vi.advanceTimersByTimeAsync(1_000);

  expect(other.source).toBe(one.source);
  expect(server.requests).toEqual([`GET ${path}`]);
  expect(one.source.data).toEqual({ n: 1 });
  expect(one.draw).toHaveBeenCalledTimes(1);
  expect(other.draw).toHaveBeenCalledTimes(1);
});

test("many changes are one read, at most every 400 ms", async () => {
  const server = serve(() => json({}));
  const { source } = shown(new_path());
  await vi.advanceTimersByTimeAsync(1);
  for (let i = 0; i < 100; i += 1) {
    source.refresh();
    await vi.advanceTimersByTimeAsync(8);
  }

  expect(server.requests.length).toBeGreaterThanOrEqual(2);
  expect(server.requests.length).toBeLessThanOrEqual(3);
  await vi.advanceTimersByTimeAsync(1_000);
  const after = server.requests.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(server.requests).toHaveLength(after);
});

test("a change during a read is read again after it, never beside it", async () => {
  let reading = 0;
  let at_once = 0;
  const server = serve(async () => {
    at_once = Math.max(at_once, (reading += 1));
    await new Promise((resolve) => setTimeout(resolve, 300));
    reading -= 1;
    return json({});
  });
  const { source } = shown(new_path());
  await vi.advanceTimersByTimeAsync(100);
  source.refresh();
  await vi.advanceTimersByTimeAsync(5_000);

  expect(server.requests).toHaveLength(2);
  expect(at_once).toBe(1);
});

test("what nothing shows is not read until it is shown again", async () => {
  const server = serve(() => json({}));
  const path = new_path();
  const { source, draw } = shown(path);
  await vi.advanceTimersByTimeAsync(1_000);
  source.listeners.delete(draw);
  source.refresh();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(server.requests).toHaveLength(1);

  shown(path);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(server.requests).toHaveLength(2);
});

test("what did not change is not read when it is shown again", async () => {
  const server = serve(() => json({}));
  const path = new_path();
  shown(path);
  await vi.advanceTimersByTimeAsync(1_000);
  shown(path);
  await vi.advanceTimersByTimeAsync(1_000);

  expect(server.requests).toHaveLength(1);
});

test("a failure keeps the data, and goes away with the next read", async () => {
  let fails = false;
  serve(() => (fails ? json({ code: "busy", detail: "busy" }, 503) : json({ n: 1 })));
  const { source } = shown(new_path());
  await vi.advanceTimersByTimeAsync(1_000);
  fails = true;
  source.refresh();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(source.problem).toMatchObject({ status: 503, code: "busy" });
  expect(source.data).toEqual({ n: 1 });

  fails = false;
  source.refresh();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(source.problem).toBeUndefined();
});

test("a source is changed by the events that it names, or those that its function picks", () => {
  const named = source_of(new_path(), ["charged"]);
  expect(named.is_changed_by(event("charged"))).toBe(true);
  expect(named.is_changed_by(event("held"))).toBe(false);

  const picked = source_of(new_path(), (each) => each.data.run === "run_1");
  expect(picked.is_changed_by(event("charged", { run: "run_1" }))).toBe(true);
  expect(picked.is_changed_by(event("charged", { run: "run_2" }))).toBe(false);
});

test("refresh reads the paths that begin so, and no other", async () => {
  const server = serve(() => json({}));
  const [one, other] = [new_path(), new_path()];
  shown(one);
  shown(`${other}?limit=3`);
  await vi.advanceTimersByTimeAsync(1_000);
  server.requests.length = 0;
  refresh(other);
  await vi.advanceTimersByTimeAsync(1_000);

  expect(server.requests).toEqual([`GET ${other}?limit=3`]);
});
