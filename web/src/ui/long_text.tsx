// Text of any length from agents and models: always as text, and only as much at a time as a browser can lay out.
import { useState } from "preact/hooks";
import { count } from "../lib/words";

const folded_chars = 1_600;
const folded_lines = 24;
const step_chars = 200_000;
const piece_chars = 10_000;

const escapes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** Removes terminal sequences. Other control characters become visible symbols, so that they cannot hide text. */
export function plain(text: string): string {
  return text
    .replace(escapes, "")
    .replace(/\r\n?/g, "\n")
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)));
}

function folded_at(text: string): number {
  let line = -1;
  for (let lines = 0; lines < folded_lines; lines += 1) {
    line = text.indexOf("\n", line + 1);
    if (line === -1 || line > folded_chars) break;
  }
  const at = line === -1 || line > folded_chars ? folded_chars : line;
  // A slightly longer text is shown whole, because the button would take as much room.
  return at + 200 >= text.length ? text.length : at;
}

/** Cuts text without splitting a surrogate pair. */
function cut(text: string, at: number): string {
  const half = text.charCodeAt(at - 1);
  return text.slice(0, half >= 0xd800 && half < 0xdc00 ? at - 1 : at);
}

/** Pieces with content-visibility. They end at line ends where possible. */
function pieces_of(text: string): string[] {
  const pieces: string[] = [];
  for (let rest = text; rest !== ""; ) {
    const line = rest.length > piece_chars ? rest.lastIndexOf("\n", piece_chars) : -1;
    const piece = line > 0 ? rest.slice(0, line) : cut(rest, piece_chars);
    pieces.push(piece);
    rest = rest.slice(line > 0 ? line + 1 : piece.length);
  }
  return pieces;
}

export function LongText({ text, code }: { text: string; code?: boolean }) {
  const fold = folded_at(text);
  const [more, set] = useState(0);
  const shown = Math.min(text.length, fold + more);
  const rest = text.length - shown;
  return (
    <>
      {pieces_of(cut(text, shown)).map((piece, i, all) => (
        <pre key={i} class={`said${code ? " code" : ""}${all.length > 1 ? " piece" : ""}`}>
          {plain(piece)}{rest > 0 && i === all.length - 1 && <span class="dim"> …</span>}
        </pre>
      ))}
      {(rest > 0 || more > 0) && (
        <div class="row">
          {rest > 0 && (
            <button type="button" class="plain" onClick={() => set(more + step_chars)}>
              {rest <= step_chars ? "show all" : `show ${count(step_chars)} more of`} {count(text.length)} characters
            </button>
          )}
          {more > 0 && <button type="button" class="plain" onClick={() => set(0)}>fold</button>}
        </div>
      )}
    </>
  );
}
