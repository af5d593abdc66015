import { expect, test } from "vitest";
import { class_of, overwritten, pieces_of, plain } from "./ansi";

const text_of = (line: string) => pieces_of(line, plain).pieces.map((piece) => piece.text).join("");
const look_after = (codes: string) => pieces_of(`\x1b[${codes}m`, plain).last;

test("colours and weights become looks, and a reset ends them", () => {
  const { pieces, last } = pieces_of("a\x1b[1;31mred\x1b[0m b", plain);

  expect(pieces).toEqual([
    { text: "a", look: plain },
    { text: "red", look: { ...plain, colour: 1, bold: true } },
    { text: " b", look: plain },
  ]);
  expect(last).toEqual(plain);
  expect(look_after("4").underlined).toBe(true);
  expect(pieces_of("\x1b[m", look_after("4")).last).toEqual(plain);
});

test("a look that a line leaves on is the look of the next line", () => {
  const { last } = pieces_of("\x1b[32mgreen", plain);

  expect(pieces_of("more", last).pieces).toEqual([{ text: "more", look: { ...plain, colour: 2 } }]);
});

test("each weight is switched on and off by its own code", () => {
  expect(look_after("1;2;3;4")).toEqual({ colour: -1, bold: true, faint: true, italic: true, underlined: true });
  expect(look_after("1;2;3;4;22")).toEqual({ ...plain, italic: true, underlined: true });
  expect(look_after("1;3;4;23;24")).toEqual({ ...plain, bold: true });
});

test("only the sixteen colours of a terminal are kept", () => {
  expect(look_after("37").colour).toBe(7);
  expect(look_after("90").colour).toBe(8);
  expect(look_after("97").colour).toBe(15);
  expect(look_after("31;39").colour).toBe(-1);
  expect(look_after("38;5;9").colour).toBe(9);
  expect(look_after("31;38;5;200").colour).toBe(-1);
  expect(look_after("38;2;1;3;4;1")).toEqual({ ...plain, bold: true });
  expect(look_after("48;5;4;3")).toEqual({ ...plain, italic: true });
});

test("everything else that a terminal would obey is left out", () => {
  expect(text_of("\x1b[2J\x1b[10;5Ha\x1b[?25lb")).toBe("ab");
  expect(text_of("\x1b]0;a title\x07a\x1b]8;;http://evil.example\x1b\\b\x1bPdata\x1b\\c")).toBe("abc");
  expect(text_of("\x1b(Ba\x1b7b\x00\x07\x08c\x7f\x9bd")).toBe("abcd");
  expect(text_of("a\tb")).toBe("a\tb");
});

test("markup stays text", () => {
  const markup = "<img src=x onerror=alert(1)>";

  expect(text_of(`\x1b[31m${markup}\x1b[0m`)).toBe(markup);
});

test("of a line that was written over, the last text remains", () => {
  expect(overwritten("10 %\r50 %\r100 %")).toBe("100 %");
  expect(overwritten("10 %\r100 %\r")).toBe("100 %");
  expect(overwritten("plain")).toBe("plain");
});

test("a look is named by classes", () => {
  expect(class_of(plain)).toBe("");
  expect(class_of({ colour: 0, bold: true, faint: true, italic: true, underlined: true })).toBe("c0 bold faint italic underlined");
});
