// Money, times, states, ids and commands: short, with the exact value on hover.
import { useRef, useState } from "preact/hooks";
import { useNow } from "../lib/clock";
import { absolute, ago, exact, nanos, rounded, short_id, spoken } from "../lib/words";
import { link } from "../lib/route";

export function Money({ value, estimated }: { value: string | bigint; estimated?: boolean }) {
  const money = typeof value === "bigint" ? value : nanos(value);
  return (
    <span class="number" title={`$${exact(money)}${estimated ? ", partly estimated" : ""}`}>
      {estimated ? "≈ " : ""}
      {rounded(money)}
    </span>
  );
}

/** Relative time, absolute on hover. */
export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span class="dim">–</span>;
  return (
    <time dateTime={at} title={absolute(at)}>
      {ago(Date.parse(at), now)}
    </time>
  );
}

const tones: Record<string, string> = {
  running: "good", alive: "good", active: "good", succeeded: "quiet", healthy: "good", open: "quiet", ok: "good",
  starting: "busy", queued: "wait", paused: "wait", cooling: "wait", warn: "wait", waiting: "wait", skipped: "wait",
  failed: "bad", lost: "bad", timed_out: "bad", exhausted: "bad", frozen: "bad", failing: "bad", fail: "bad",
  stop: "bad", gone: "bad", revoked: "bad",
};

/** State as a dot and a word, so that colour is never the only sign. */
export function State({ of, title }: { of: string; title?: string }) {
  return (
    <span class={`state ${tones[of] ?? "quiet"}`} title={title}>
      {spoken(of)}
    </span>
  );
}

export function Badge({ children, tone = "quiet", title }: { children: preact.ComponentChildren; tone?: "quiet" | "wait" | "bad" | "good"; title?: string }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

/** Shortened id, as a link if its object has a screen. */
export function Id({ of }: { of: string | null | undefined }) {
  if (!of) return <span class="dim">–</span>;
  const kind = of.split("_", 1)[0];
  const text = short_id(of);
  if (kind === "run") return <a class="id" href={link("runs", of)} title={of}>{text}</a>;
  if (kind === "ses" || kind === "session") return <a class="id" href={link("sessions", of)} title={of}>{text}</a>;
  return <code class="id" title={of}>{text}</code>;
}

/** Shell command with a copy button. */
export function Command({ text }: { text: string }) {
  const [copied, set] = useState(false);
  const code = useRef<HTMLElement>(null);
  const copy = async () => {
    // Browsers have no clipboard on insecure connections.
    if (!navigator.clipboard) return getSelection()?.selectAllChildren(code.current!);
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1_500);
  };
  return (
    <span class="command">
      <code ref={code} title={text}>{text}</code>
      <button type="button" class="plain" onClick={copy} aria-label={`Copy: ${text}`}>
        {copied ? "copied" : "copy"}
      </button>
    </span>
  );
}
