import { expect, test } from "vitest";
import { exhaustion_words, fullest_first, fullness, scope_words, standing, window_words } from "./budgets";
import type { Budget } from "./types";

function budget_of(fields: Partial<Budget>): Budget {
  return {
    name: "b", scope: {}, metric: "usd", timezone: "UTC", limit: "10.00", hard: true, warn: [50, 80], on_exhausted: "refuse",
    created_at: "2026-11-19T12:00:00Z", frozen: null, settled: "0.00", held: "0.00", free: "10.00", open_holds: 0, exhausted: false,
    window: { kind: "day", start: null, end: null }, ...fields,
  };
}

const word = (fields: Partial<Budget>) => standing(budget_of(fields)).word;
const tone = (fields: Partial<Budget>) => standing(budget_of(fields)).tone;

test("a scope names what the budget covers", () => {
  expect(scope_words({})).toBe("everything");
  expect(scope_words({ agent: "coder", api_key: "k1" })).toBe("agent coder, key k1");
  expect(scope_words({ tags: { team: "a", env: "ci" } })).toBe("team=a, env=ci");
});

test("a window has its length, and its time zone where that matters", () => {
  expect(window_words(budget_of({}))).toBe("per day");
  expect(window_words(budget_of({ timezone: "Europe/Berlin" }))).toBe("per day, Europe/Berlin");
  expect(window_words(budget_of({ window: { kind: "total", start: null, end: null } }))).toBe("in total");
});

test("settled and held fill a budget", () => {
  expect(fullness(budget_of({ settled: "2.50", held: "2.50" }))).toBe(50);
  expect(fullness(budget_of({ limit: "0.00" }))).toBe(0);
});

test("the standing is the worst that is true of a budget", () => {
  expect(word({})).toBe("ok");
  expect(tone({})).toBe("quiet");
  expect(word({ settled: "5.00" })).toBe("over 50 %");
  expect(word({ settled: "8.00" })).toBe("over 80 %");
  expect(word({ settled: "4.00", held: "5.50" })).toBe("nearly used up");
  expect(word({ settled: "4.00", held: "6.00" })).toBe("all held");
  expect(word({ settled: "10.00" })).toBe("used up");
  expect(word({ settled: "9.00", exhausted: true })).toBe("used up");
  expect(word({ settled: "11.00", hard: false })).toBe("over its limit");
  expect(tone({ settled: "11.00", hard: false })).toBe("wait");
  expect(standing(budget_of({ settled: "11.00", frozen: "overage of $1.00" }))).toMatchObject({ word: "frozen", tone: "bad", why: "overage of $1.00" });
});

test("a budget that is used up by a request that did not fit says so", () => {
  const spent = standing(budget_of({ settled: "10.00" })).why;
  const refused = standing(budget_of({ settled: "9.00", exhausted: true })).why;

  expect(spent).not.toBe(refused);
});

test("frozen budgets come first, then used up ones, then the fullest, then by name", () => {
  const budgets = [
    budget_of({ name: "half", settled: "5.00" }), budget_of({ name: "b" }), budget_of({ name: "a" }),
    budget_of({ name: "soft", settled: "99.00", exhausted: true, hard: false }),
    budget_of({ name: "used_up", settled: "1.00", exhausted: true }), budget_of({ name: "frozen", frozen: "overage" }),
  ];

  expect(fullest_first(budgets).map((each) => each.name)).toEqual(["frozen", "used_up", "soft", "half", "a", "b"]);
  expect(budgets[0]!.name).toBe("half"); // The given list stays as it was.
});

test("each way to end is said, and a total budget has no window that ends", () => {
  const ends = ["pause_agent", "stop_runs", "refuse"].map((on_exhausted) => exhaustion_words(budget_of({ on_exhausted })));

  expect(new Set(ends).size).toBe(3);
  expect(ends[2]).toContain("window");
  expect(exhaustion_words(budget_of({ window: { kind: "total", start: null, end: null } }))).not.toContain("window");
  expect(exhaustion_words(budget_of({ hard: false }))).toContain("warns");
});
