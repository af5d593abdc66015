// Timeline of a run: queued, starting, model calls, own work, paused.
import type { ModelCall, Run, RunStep } from "./types";
import { spoken } from "./words";

export type Kind = "queued" | "waiting" | "starting" | "model" | "own" | "paused";

export interface Segment {
  kind: Kind;
  from: number;
  to: number;
  label: string;
  note: string;
}

const waits: Record<string, string> = {
  workspace: "waiting for its workspace",
  budget: "waiting for budget",
  agent: "waiting for its agent",
  its_time: "waiting for its start time",
  agent_cap: "waiting for the cap of its agent",
  provider_cap: "waiting for the cap of its provider",
  node_cap: "waiting for the cap of its node",
  org_cap: "waiting for the cap of the org",
};

/** Steps from the times of the run, if none are recorded. */
function steps_of(run: Run): RunStep[] {
  const step = (at: string | null, status: RunStep["status"]): RunStep[] => (at ? [{ at, status, waits_for: null, reason: "" }] : []);
  return [...step(run.created_at, "queued"), ...step(run.admitted_at, "starting"), ...step(run.started_at, "running")];
}

/** Segments, oldest first, without gaps. `calls` can have any order. */
export function segments_of(run: Run, recorded: RunStep[], calls: ModelCall[], now: number): Segment[] {
  const steps = recorded.length > 0 ? recorded : steps_of(run);
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  const spans = calls.map((call) => ({ call, from: Date.parse(call.at), to: Date.parse(call.at) + call.duration_us / 1000 }))
    .sort((a, b) => a.from - b.from);
  const segments: Segment[] = [];
  const add = (kind: Kind, from: number, to: number, label: string, note: string | null = "") => {
    if (to > from) segments.push({ kind, from, to, label, note: note ?? "" });
  };
  steps.forEach((step, i) => {
    const from = Date.parse(step.at);
    const to = Math.min(end, i + 1 < steps.length ? Date.parse(steps[i + 1]!.at) : end);
    if (step.status === "queued") {
      const waits_for = step.waits_for && step.waits_for !== "nothing" ? step.waits_for : undefined;
      if (waits_for) add("waiting", from, to, waits[waits_for] ?? `waiting: ${spoken(waits_for)}`, step.reason);
      else add("queued", from, to, "queued", step.reason);
    } else if (step.status === "starting") add("starting", from, to, "starting", step.reason);
    else if (step.status === "paused") add("paused", from, to, "paused", step.reason);
    else if (step.status === "running") {
      // Overlapping calls are one segment.
      let at = from;
      for (let first = 0; first < spans.length;) {
        let { to: until } = spans[first]!;
        let next = first + 1;
        while (next < spans.length && spans[next]!.from <= until) until = Math.max(until, spans[next++]!.to);
        const begin = Math.max(at, spans[first]!.from);
        const finish = Math.min(to, until);
        if (finish > begin) {
          add("own", at, begin, "tools and own work");
          const models = [...new Set(spans.slice(first, next).map((each) => each.call.model))].join(", ");
          add("model", begin, finish, "model", next - first > 1 ? `${next - first} calls: ${models}` : models);
          at = finish;
        }
        first = next;
      }
      add("own", at, to, "tools and own work");
    }
  });
  return segments;
}
