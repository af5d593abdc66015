// Output of programs, always as text: one line, and the log of a run, scrolled to its end.
import { Component } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { class_of, type Look, pieces_of, plain } from "../lib/ansi";
import { get_bytes, Problem, query } from "../lib/api";
import { useConnection } from "../lib/live";
import { type Line, LogLines } from "../lib/log_lines";
import { bytes as size } from "../lib/words";
import { Empty, ErrorMessage, Loading } from "./parts";

const shown_max = 2_000; // Characters of one line before "show all".
const piece_chars = 10_000;
const piece_bytes = 64 << 10; // First read of the log, and each "Show earlier".
const whole_bytes = 1 << 20; // First read of a log with very long lines; maximum of the API.
const lines_min = 20;
const pause_ms = 250; // Between reads of a log that grows all the time.
const wait_s = 25;
const behind_max = 1 << 20; // Further behind than this, the view restarts at the end of the log.

/** One line of terminal output: colours as classes, all else as text. A long line is cut until "show all". */
export function TerminalLine({ text, look = plain }: { text: string; look?: Look }) {
  const [all, show_all] = useState(false);
  const long = text.length > shown_max;
  if (!long || !all) {
    return (
      <>
        <StyledText text={long ? text.slice(0, shown_max) : text} look={look} />
        {long && <button type="button" class="plain" onClick={() => show_all(true)}>… show all {size(text.length)}</button>}
      </>
    );
  }
  // Pieces with content-visibility, so that the browser lays out only those in view.
  const pieces = [];
  for (let from = 0; from < text.length; from += piece_chars) {
    pieces.push(<div key={from} class="piece"><StyledText text={text.slice(from, from + piece_chars)} look={plain} /></div>);
  }
  return <>{pieces}</>;
}

function StyledText({ text, look }: { text: string; look: Look }) {
  if (look === plain && !/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(text)) return <>{text}</>;
  return (
    <>
      {pieces_of(text, look).pieces.map((piece, i) => {
        const looks = class_of(piece.look);
        return looks ? <span key={i} class={looks}>{piece.text}</span> : piece.text;
      })}
    </>
  );
}

/** Lines that are rendered once, because a log grows only at its end. */
class Lines extends Component<{ lines: readonly Line[] }> {
  override shouldComponentUpdate(next: { lines: readonly Line[] }): boolean {
    return next.lines !== this.props.lines;
  }
  override render() {
    return <div>{this.props.lines.map((line, i) => <LogLine key={i} line={line} />)}</div>;
  }
}

function LogLine({ line }: { line: Line }) {
  if (line.gap) return <div class="gap">… {size(line.gap)} missing …</div>;
  return <div class="line"><TerminalLine text={line.text} look={line.look} /></div>;
}

function lines_in(bytes: Uint8Array): number {
  return bytes.reduce((lines, byte) => lines + (byte === 0x0a ? 1 : 0), 0);
}

function useVisible(): boolean {
  const [visible, set] = useState(!document.hidden);
  useEffect(() => {
    const listener = () => set(!document.hidden);
    document.addEventListener("visibilitychange", listener);
    return () => document.removeEventListener("visibilitychange", listener);
  }, []);
  return visible;
}

/** The end of a run's log, followed while the page is visible. Use one component per run. `small`: only the last lines. */
export function Log({ run, small }: { run: string; small?: boolean }) {
  const [log, set_log] = useState(() => new LogLines());
  const [, draw] = useState(0);
  const [ended, set_ended] = useState(false);
  const [follow, set_follow] = useState(true);
  const [problem, set_problem] = useState<Problem>();
  const [busy, set_busy] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const grown = useRef(0); // Height before earlier lines were added.
  const visible = useVisible();
  const connection = useConnection();
  // An API key without the feed can still read logs.
  const here = visible && (connection === "live" || connection === "no_feed") && follow && !ended;

  useEffect(() => {
    if (!here) return;
    const abort = new AbortController();
    const read_on = async () => {
      for (let tail = small ? piece_bytes >> 4 : piece_bytes; !abort.signal.aborted;) {
        const { bytes, headers } = await get_bytes(query(`v1/runs/${run}/log`, {
          offset: log.next ?? -tail,
          limit: whole_bytes,
          wait: log.next === undefined ? undefined : wait_s,
        }), abort.signal);
        if (abort.signal.aborted) return;
        const at = (name: string) => Number(headers.get(`x-interlock-log-${name}`));
        if (log.next === undefined && at("offset") > 0 && !small && tail < whole_bytes && lines_in(bytes) < lines_min) {
          tail = whole_bytes;
          continue;
        }
        log.add(at("offset"), bytes);
        log.trim();
        set_problem(undefined);
        if (headers.get("x-interlock-run-ended") === "true" && at("next") >= at("end")) set_ended(true);
        if (at("end") - at("next") > behind_max) return set_log(new LogLines());
        draw((n) => n + 1);
        await new Promise((resolve) => setTimeout(resolve, pause_ms));
      }
    };
    read_on().catch((error: unknown) => error instanceof Problem && !abort.signal.aborted && set_problem(error));
    return () => abort.abort();
  }, [run, log, here]);

  useLayoutEffect(() => {
    const scroller = box.current;
    if (!scroller) return;
    if (grown.current > 0) {
      scroller.scrollTop += scroller.scrollHeight - grown.current;
      grown.current = 0;
    } else if (follow) {
      scroller.scrollTop = scroller.scrollHeight;
    }
  });

  const show_earlier = async () => {
    set_busy(true);
    try {
      const from = Math.max(0, log.begin - piece_bytes);
      const { bytes, headers } = await get_bytes(query(`v1/runs/${run}/log`, { offset: from, limit: log.begin - from }));
      set_follow(false);
      grown.current = box.current?.scrollHeight ?? 0;
      log.add_before(Number(headers.get("x-interlock-log-offset")), bytes);
    } catch (error) {
      if (error instanceof Problem) set_problem(error);
    }
    set_busy(false);
  };

  const on_scroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    const at_end = scrollHeight - scrollTop - clientHeight < 12;
    if (at_end !== follow) set_follow(at_end);
  };

  if (problem?.code === "log_not_kept") return <Empty>No log: {problem.detail}.</Empty>;
  const unended = log.unended;
  const nothing = log.blocks.length === 0 && !unended;
  return (
    <div class="log">
      <ErrorMessage of={problem} />
      {log.next === undefined && !problem && <Loading />}
      {log.next !== undefined && nothing && <p class="dim">{ended ? "The run wrote nothing." : "No output yet."}</p>}
      <div class={small ? "output small" : "output"} ref={box} onScroll={on_scroll} hidden={nothing}
        tabIndex={0} role="log" aria-live="off" aria-label="Output of the run">
        {log.begin > 0 && !small && (
          <button type="button" class="plain" disabled={busy} onClick={() => void show_earlier()}>Show earlier: {size(log.begin)} before this</button>
        )}
        {log.blocks.map((block) => <Lines key={block.id} lines={block.lines} />)}
        {unended && <LogLine line={unended} />}
      </div>
      {!small && !nothing && !ended && (
        <label class="inline dim">
          <input type="checkbox" checked={follow} onChange={(event) => set_follow(event.currentTarget.checked)} />
          follow
        </label>
      )}
    </div>
  );
}
