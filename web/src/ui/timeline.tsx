// Timeline of a run, with a legend and a table.
import { useMemo, useState } from "preact/hooks";
import type { Segment } from "../lib/timeline";
import { length } from "../lib/words";

const width = 1_000;
const table_max = 500;

function clock(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function Timeline({ segments, label }: { segments: Segment[]; label: string }) {
  const [chosen, choose] = useState<number>();
  const [open, set_open] = useState(false);
  const from = segments[0]?.from ?? 0;
  const to = segments.at(-1)?.to ?? from + 1;
  const scale = width / Math.max(1, to - from);
  const totals = useMemo(() => {
    const sums = new Map<string, { kind: string; ms: number }>();
    for (const { label: name, kind, from, to } of segments) {
      const sum = sums.get(name) ?? { kind, ms: 0 };
      sum.ms += to - from;
      sums.set(name, sum);
    }
    return [...sums];
  }, [segments]);
  const order = useMemo(() => {
    const all = segments.map((_, i) => i);
    return [...all.filter((i) => segments[i]!.kind === "own"), ...all.filter((i) => segments[i]!.kind !== "own")];
  }, [segments]);
  const told = chosen === undefined ? undefined : segments[chosen];
  const at_pointer = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const at = from + ((event.clientX - box.left) / box.width) * (to - from);
    const index = segments.findIndex((each) => at >= each.from && at < each.to);
    choose(index >= 0 ? index : undefined);
  };
  const on_key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(segments.length - 1, (chosen ?? (step > 0 ? -1 : segments.length)) + step)));
  };
  const words = (each: Segment) => `${each.label} for ${length(each.to - each.from)}${each.note ? `: ${each.note}` : ""}`;
  return (
    <figure class="timeline">
      <div role="group" aria-label={`${label}. Left and right arrow keys select a segment.`} tabIndex={0} onKeyDown={on_key} onBlur={() => choose(undefined)}>
        <svg viewBox={`0 0 ${width} 30`} preserveAspectRatio="none" role="img" aria-label={totals.map(([what, { ms }]) => `${what} ${length(ms)}`).join(", ")}
          onPointerMove={at_pointer} onPointerLeave={() => choose(undefined)}>
          {order.map((i) => {
            const each = segments[i]!;
            const low = each.kind === "own"; // Low, so that even short model calls stand out.
            return (
              <rect key={i} class={`${each.kind} ${i === chosen ? "chosen" : ""}`} x={(each.from - from) * scale} y={low ? 10 : 0}
                width={Math.max(low ? 0.5 : 1.5, (each.to - each.from) * scale)} height={low ? 10 : 30} />
            );
          })}
        </svg>
      </div>
      <p class="told dim" aria-live="polite">
        <span>{clock(from)}</span>
        <span>{told ? <>{words(told)} <span class="number">({clock(told.from)} to {clock(told.to)})</span></> : `${length(to - from)} in total`}</span>
        <span>{clock(to)}</span>
      </p>
      <figcaption class="legend">
        {totals.map(([what, { kind, ms }]) => <span key={what} class={`key ${kind}`}>{what} <span class="number">{length(ms)}</span></span>)}
        <details onToggle={(event) => set_open(event.currentTarget.open)}>
          <summary>as a table</summary>
          {open && (
            <div class="scroll short" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
              <table>
                <thead><tr><th scope="col">from</th><th scope="col">activity</th><th scope="col">detail</th><th scope="col" class="number">duration</th></tr></thead>
                <tbody>
                  {segments.slice(-table_max).map((each) => (
                    <tr key={each.from}><td>{clock(each.from)}</td><td>{each.label}</td><td>{each.note}</td><td class="number">{length(each.to - each.from)}</td></tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </details>
      </figcaption>
    </figure>
  );
}
