import { expect, test } from "vitest";
import { segments_of } from "./timeline";
import type { ModelCall, Run, RunStep } from "./types";

const start = Date.parse("2026-11-19T12:00:00Z");
const at = (s: number) => new Date(start + s * 1_000).toISOString();

const run_of = (fields: Partial<Run>) => ({ created_at: at(0), admitted_at: null, started_at: null, ended_at: null, ...fields }) as Run;
const step = (s: number, status: RunStep["status"], waits_for: string | null = null, reason = ""): RunStep => ({ at: at(s), status, waits_for, reason });
const call = (from: number, to: number, model = "small") => ({ at: at(from), duration_us: (to - from) * 1e6, model }) as ModelCall;

function drawn(run: Run, steps: RunStep[], calls: ModelCall[], now_s: number) {
  return segments_of(run, steps, calls, start + now_s * 1_000)
    .map(({ kind, from, to, note }) => [kind, (from - start) / 1_000, (to - start) / 1_000, note]);
}

test("each step lasts until the next one, and the last one until the end", () => {
  const steps = [step(0, "queued"), step(2, "starting"), step(3, "running"), step(6, "paused", null, "by an operator"), step(8, "running")];

  expect(drawn(run_of({ ended_at: at(10) }), steps, [], 99)).toEqual([
    ["queued", 0, 2, ""], ["starting", 2, 3, ""], ["own", 3, 6, ""], ["paused", 6, 8, "by an operator"], ["own", 8, 10, ""],
  ]);
});

test("a live run goes on until now", () => {
  expect(drawn(run_of({}), [step(0, "running")], [], 7)).toEqual([["own", 0, 7, ""]]);
});

test("a run without recorded steps is drawn by its own times", () => {
  const run = run_of({ admitted_at: at(1), started_at: at(2), ended_at: at(5) });

  expect(drawn(run, [], [], 99)).toEqual([["queued", 0, 1, ""], ["starting", 1, 2, ""], ["own", 2, 5, ""]]);
  expect(drawn(run_of({}), [], [], 3)).toEqual([["queued", 0, 3, ""]]);
});

test("a queued run says what it waits for", () => {
  const steps = [step(0, "queued", "workspace", "held by run_1"), step(1, "queued", "nothing"), step(2, "queued", "a_new_kind")];
  const segments = segments_of(run_of({ ended_at: at(3) }), steps, [], start);

  expect(segments.map((each) => each.kind)).toEqual(["waiting", "queued", "waiting"]);
  expect(segments[0]!.note).toBe("held by run_1");
  expect(segments[2]!.label).toBe("waiting: a new kind");
});

test("calls to models divide a running step in any order", () => {
  expect(drawn(run_of({ ended_at: at(10) }), [step(0, "running")], [call(6, 7), call(2, 4)], 99)).toEqual([
    ["own", 0, 2, ""], ["model", 2, 4, "small"], ["own", 4, 6, ""], ["model", 6, 7, "small"], ["own", 7, 10, ""],
  ]);
});

test("calls that overlap are one segment", () => {
  const calls = [call(2, 6), call(3, 4, "large"), call(5, 8), call(8, 9)];

  expect(drawn(run_of({ ended_at: at(10) }), [step(0, "running")], calls, 99)).toEqual([
    ["own", 0, 2, ""], ["model", 2, 9, "4 calls: small, large"], ["own", 9, 10, ""],
  ]);
});

test("a call is cut where its step or the run ends", () => {
  const steps = [step(0, "starting"), step(1, "running"), step(4, "paused")];

  expect(drawn(run_of({ ended_at: at(6) }), steps, [call(0, 2), call(3, 9)], 99)).toEqual([
    ["starting", 0, 1, ""], ["model", 1, 2, "small"], ["own", 2, 3, ""], ["model", 3, 4, "small"], ["paused", 4, 6, ""],
  ]);
});

test("the segments have no gap and no overlap", () => {
  const calls = Array.from({ length: 50 }, (_, i) => call(i * 0.7, i * 0.7 + (i % 3) * 0.5));
  const steps = [step(0, "queued"), step(1, "starting"), step(2, "running"), step(12, "paused"), step(14, "running")];
  const segments = segments_of(run_of({ ended_at: at(30) }), steps, calls, start);

  expect(segments[0]!.from).toBe(start);
  expect(segments.at(-1)!.to).toBe(start + 30_000);
  for (let i = 1; i < segments.length; i += 1) expect(segments[i]!.from).toBe(segments[i - 1]!.to);
});
