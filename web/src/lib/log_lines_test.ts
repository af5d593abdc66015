import { expect, test } from "vitest";
import { type Line, LogLines } from "./log_lines";

const bytes = (text: string) => new TextEncoder().encode(text);
const lines = (log: LogLines): Line[] => log.blocks.flatMap((block) => block.lines);
const texts = (log: LogLines) => lines(log).map((line) => (line.gap ? `(${line.gap})` : line.text));
const numbered = (from: number, count: number) => Array.from({ length: count }, (_, i) => `line ${String(from + i).padStart(5, "0")}\n`).join("");
const line_bytes = 11;

function log_of(text: string, offset = 0): LogLines {
  const log = new LogLines();
  log.add(offset, bytes(text));
  return log;
}

test("pieces are joined to lines, and the unended line is shown as it is", () => {
  const log = log_of("one\ntw");
  expect(texts(log)).toEqual(["one"]);
  expect(log.unended?.text).toBe("tw");
  expect(log.next).toBe(6);

  log.add(6, bytes("o\n"));
  expect(texts(log)).toEqual(["one", "two"]);
  expect(log.unended).toBeUndefined();
  expect(log.next).toBe(8);
});

test("a character whose bytes come in two pieces is whole", () => {
  const both = bytes("é\n");
  const log = new LogLines();
  log.add(0, both.subarray(0, 1));
  log.add(1, both.subarray(1));

  expect(texts(log)).toEqual(["é"]);
});

test("a piece from the middle begins with its first whole line", () => {
  const log = log_of("il\nwhole\n", 100);

  expect(texts(log)).toEqual(["whole"]);
  expect(log.begin).toBe(103);
});

test("a piece that is nearly one line is shown from where it begins", () => {
  const log = log_of("a very long end of a line\nx\n", 100);

  expect(texts(log)).toEqual(["a very long end of a line", "x"]);
  expect(log.begin).toBe(100);
});

test("bytes that the server did not keep are a gap, and the line before it is ended", () => {
  const log = log_of("a\nb");
  log.add(10, bytes("c\n"));

  expect(texts(log)).toEqual(["a", "b", "(7)", "c"]);
});

test("earlier lines come before, with a gap for what is missing between", () => {
  const log = log_of("c\n", 8);
  log.add_before(0, bytes("a\nbb\n"));

  expect(texts(log)).toEqual(["a", "bb", "(3)", "c"]);
  expect(log.begin).toBe(0);
});

test("earlier lines that end where the first one begins leave no gap", () => {
  const log = log_of("c\n", 5);
  log.add_before(0, bytes("a\nbb\n"));

  expect(texts(log)).toEqual(["a", "bb", "c"]);
});

test("a full block is never changed again", () => {
  const log = log_of(numbered(0, 150));
  const [full, half] = log.blocks;
  log.add(log.next!, bytes(numbered(150, 10)));

  expect(log.blocks[0]).toBe(full);
  expect(log.blocks[1]).not.toBe(half);
  expect(log.blocks[1]!.id).toBe(half!.id);
  expect(log.blocks.map((block) => block.lines.length)).toEqual([100, 60]);
});

test("trim drops the oldest blocks, and the log then begins behind them", () => {
  const log = new LogLines();
  for (let i = 0; i < 50; i += 1) log.add(i * 100 * line_bytes, bytes(numbered(i * 100, 100)));
  log.trim();

  expect(lines(log)).toHaveLength(4_000);
  expect(texts(log)[0]).toBe("line 01000");
  expect(log.begin).toBe(1_000 * line_bytes);
});

test("of very many lines at once only the last are kept, in the look that the others left on", () => {
  const red = "\x1b[31m";
  const log = log_of(red + numbered(0, 5_000));

  expect(lines(log)).toHaveLength(4_000);
  expect(texts(log)[0]).toBe("line 01000");
  expect(lines(log)[0]!.look.colour).toBe(1);
  expect(log.begin).toBe(red.length + 1_000 * line_bytes);
});

test("a colour goes on over the end of a line", () => {
  const log = log_of("\x1b[32mone\ntwo\x1b[0m\nthree\n");

  expect(lines(log).map((line) => line.look.colour)).toEqual([-1, 2, -1]);
});

test("a line without an end is cut at two megabytes", () => {
  const log = log_of("x".repeat((2 << 20) + 1));

  expect(lines(log)).toHaveLength(1);
  expect(log.unended).toBeUndefined();
});

test("a line that was written over shows its last text", () => {
  expect(texts(log_of("10 %\r100 %\n"))).toEqual(["100 %"]);
});
