// What a run did with its time: where it waited, when a model worked for it, and when it worked by itself.
import type { ModelCall, Run, RunStep } from "./types";
import { spoken } from "./words";

export type Kind = "queued" | "waiting" | "starting" | "model" | "own" | "paused";

export interface Segment {
  kind: Kind;
  from: number;
  to: number;
  what: string;
  note: string;
}

const waits: Record<string, string> = {
  workspace: "waiting for its place",
  budget: "waiting for budget",
  agent: "waiting for its agent",
  its_time: "waiting for its time",
  agent_cap: "waiting for a turn of its agent",
  provider_cap: "waiting for a turn at its provider",
  node_cap: "waiting for room on its node",
  org_cap: "waiting for room",
};

/** The steps of a run that has none on record, by the times that a run has itself. */
function steps_of(run: Run): RunStep[] {
  const step = (at: string | null, status: RunStep["status"]): RunStep[] => (at ? [{ at, status, waits_for: null, reason: "" }] : []);
  return [...step(run.created_at, "queued"), ...step(run.admitted_at, "starting"), ...step(run.started_at, "running")];
}

/** Oldest first, without gaps. `calls` in any order. */
export function segments_of(run: Run, recorded: RunStep[], calls: ModelCall[], now: number): Segment[] {
  const steps = recorded.length > 0 ? recorded : steps_of(run);
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  const spans = calls.map((call) => ({ call, from: Date.parse(call.at), to: Date.parse(call.at) + call.duration_us / 1000 }))
    .sort((a, b) => a.from - b.from);
  const segments: Segment[] = [];
  const add = (kind: Kind, from: number, to: number, what: string, note: string | null = "") => {
    if (to > from) segments.push({ kind, from, to, what, note: note ?? "" });
  };
  steps.forEach((step, i) => {
    const from = Date.parse(step.at);
    const to = Math.min(end, i + 1 < steps.length ? Date.parse(steps[i + 1]!.at) : end);
    if (step.status === "queued") {
      const waits_for = step.waits_for && step.waits_for !== "nothing" ? step.waits_for : undefined;
      if (waits_for) add("waiting", from, to, waits[waits_for] ?? `waiting: ${spoken(waits_for)}`, step.reason);
      else add("queued", from, to, "in line", step.reason);
    } else if (step.status === "starting") add("starting", from, to, "starting", step.reason);
    else if (step.status === "paused") add("paused", from, to, "paused", step.reason);
    else if (step.status === "running") {
      // Calls beside each other are one stretch of the model's work.
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
