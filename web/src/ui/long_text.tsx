// Text of any length from agents and models: always as text, and only as much at a time as a browser can lay out.
import { useState } from "preact/hooks";
import { cut, folded_at, pieces_of, plain } from "../lib/long_text";
import { count } from "../lib/words";

const step_chars = 200_000;

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
