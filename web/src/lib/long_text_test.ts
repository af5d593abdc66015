import { expect, test } from "vitest";
import { cut, folded_at, pieces_of, plain } from "./long_text";

test("terminal sequences are removed, and other control characters are visible", () => {
  expect(plain("\x1b[31mred\x1b[0m \x1b]0;title\x07text")).toBe("red text");
  expect(plain("a\x00b\x08c\x1bd")).toBe("a␀b␈c␛d");
  expect(plain("a\r\nb\rc\td")).toBe("a\nb\nc\td");
});

test("a short text is shown whole", () => {
  expect(folded_at("short")).toBe(5);
  expect(folded_at("x".repeat(1_800))).toBe(1_800); // Hardly more than what is shown of a longer one.
});

test("a long text is folded after some lines or characters", () => {
  expect(folded_at("x".repeat(5_000))).toBe(1_600);
  expect(folded_at("a line\n".repeat(200))).toBe(7 * 24 - 1);
});

test("a cut does not split a surrogate pair", () => {
  expect(cut("a😀b", 2)).toBe("a");
  expect(cut("a😀b", 3)).toBe("a😀");
  expect(cut("abc", 2)).toBe("ab");
});

test("pieces end at line ends, and together are the text", () => {
  const text = Array.from({ length: 3_000 }, (_, i) => `line ${i}`).join("\n");
  const pieces = pieces_of(text);

  expect(pieces.length).toBeGreaterThan(2);
  expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThanOrEqual(10_000);
  expect(pieces.join("\n")).toBe(text);
});

test("a line without an end is cut into pieces", () => {
  const text = "😀".repeat(12_345);
  const pieces = pieces_of(text);

  expect(pieces.every((piece) => piece.length <= 10_000)).toBe(true);
  expect(pieces.join("")).toBe(text);
});
