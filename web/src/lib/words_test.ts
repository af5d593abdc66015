import { describe, expect, test } from "vitest";
import {
  ago, amount, bytes, count, exact, exact_amount, height, length, moment, nanos, percent, quoted, rounded, shell_command, short_id, spoken, units,
} from "./words";

describe("money", () => {
  test("amounts are read to the last digit", () => {
    expect(nanos("0.00075")).toBe(750_000n);
    expect(nanos("12")).toBe(12_000_000_000n);
    expect(nanos("-1.5")).toBe(-1_500_000_000n);
    expect(nanos("0.000000001")).toBe(1n);
    expect(nanos("9007199254.740993")).toBe(9_007_199_254_740_993_000n); // No double holds it.
  });

  test("an exact amount has at least two decimals, and as many as it needs", () => {
    expect([0n, 750_000n, 1n, 2_500_000_000n, -1_500_000_000n].map(exact)).toEqual(["0.00", "0.00075", "0.000000001", "2.50", "-1.50"]);
    expect(exact(nanos("9007199254.740993"))).toBe("9007199254.740993");
  });

  test.each([
    ["0", "$0.00"], ["1234.5", "$1,234.50"], ["1234567", "$1,234,567.00"], ["0.0123", "$0.0123"], ["0.00001", "<$0.0001"],
    ["0.1", "$0.10"], ["0.995", "$1.00"], ["0.994", "$0.99"], ["-2", "-$2.00"], ["-0.00001", "-<$0.0001"],
  ])("%s is shown as %s", (text, shown) => {
    expect(rounded(nanos(text))).toBe(shown);
  });

  test("an amount of a budget is money, or a number of its metric", () => {
    expect(amount("12.50", "usd")).toBe("$12.50");
    expect(amount("12500", "tokens")).toBe("12.5k tokens");
    expect(exact_amount(nanos("12.5"), "usd")).toBe("$12.50");
    expect(exact_amount(units("12500"), "runs")).toBe("12500 runs");
    expect(height(nanos("0.25"))).toBe(0.25);
  });

  test("a part of nothing is nothing or all", () => {
    expect(percent(1n, 3n)).toBe(33.33);
    expect(percent(0n, 0n)).toBe(0);
    expect(percent(1n, 0n)).toBe(100);
    expect(percent(nanos("9007199254.740993"), nanos("9007199254.740993"))).toBe(100);
  });
});

test("counts are short from ten thousand on", () => {
  expect([0, 9_999, 10_000, 123_456, 2_500_000, 7e9].map(count)).toEqual(["0", "9,999", "10.0k", "123k", "2.5M", "7.0G"]);
});

test("sizes have the unit that keeps them short", () => {
  expect([0, 999, 1_500, 15_000, 2.5e6, 5e15].map(bytes)).toEqual(["0 B", "999 B", "1.5 kB", "15 kB", "2.5 MB", "5000 TB"]);
});

test("lengths of time have two units at most", () => {
  expect([12, 1_500, 42_000, 61_000, 3_661_000, 90_000_000].map(length)).toEqual(["12 ms", "1.5 s", "42 s", "1m 01s", "1h 01m", "1d 1h"]);
});

test("times are relative to now, before it and after it", () => {
  const now = 1_000_000_000;
  expect([0, 30_000, 150_000, 7_200_000, 200_000_000].map((ms) => ago(now - ms, now))).toEqual(["now", "30 s ago", "2 min ago", "2 h ago", "2 d ago"]);
  expect(ago(now + 90_000, now)).toBe("in 1 min");
});

test("a moment names no more of its date than it needs", () => {
  const now = new Date(2026, 10, 18, 12, 0); // A Wednesday.
  expect(moment(new Date(2026, 10, 18, 14, 5), now)).toBe("today 14:05");
  expect(moment(new Date(2026, 10, 19, 14, 5), now)).toBe("Thursday 14:05");
  expect(moment(new Date(2026, 11, 24, 9, 0), now)).toBe("24 Dec 09:00");
  expect(moment(new Date(2027, 0, 2, 9, 0), now)).toBe("2 Jan 2027 09:00");
});

test("the end of an id tells it from others", () => {
  expect(short_id("run_01m7h2v2n6exp84hhng6pqg26f")).toBe("run_…pqg26f");
  expect(short_id("run_12345678")).toBe("run_12345678");
  expect(spoken("timed_out_again")).toBe("timed out again");
});

test("a command is as a shell takes it", () => {
  expect(shell_command("interlock", "runs", "ls", "--agent", "coder")).toBe("interlock runs ls --agent coder");
  expect(quoted("")).toBe("''");
  expect(quoted("a b; rm -rf $HOME")).toBe("'a b; rm -rf $HOME'");
  expect(quoted("it's")).toBe("'it'\\''s'");
  expect(quoted("`x`\n")).toBe("'`x`\n'");
});
