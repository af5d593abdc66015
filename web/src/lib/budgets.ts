// Texts about budgets, and their order.
import type { Budget } from "./types";
import { percent, units } from "./words";

export function scope_words(scope: Budget["scope"]): string {
  const words = Object.entries(scope).map(([name, value]) => {
    if (name === "tags") return Object.entries(value as Record<string, string>).map(([tag, is]) => `${tag}=${is}`).join(", ");
    return `${name === "api_key" ? "key" : name} ${String(value)}`;
  });
  return words.join(", ") || "everything";
}

/** Length of a window, with its time zone unless that is UTC. */
export function window_words(budget: Pick<Budget, "window" | "timezone">): string {
  if (budget.window.kind === "total") return "in total";
  return `per ${budget.window.kind}${budget.timezone === "UTC" ? "" : `, ${budget.timezone}`}`;
}

/** Settled and held of the limit, in percent. */
export function fullness(budget: Budget): number {
  return percent(units(budget.settled) + units(budget.held), units(budget.limit));
}

/** Frozen budgets first, then used up ones, then by use. */
export function fullest_first(budgets: Budget[]): Budget[] {
  const rank = (budget: Budget) => (budget.frozen !== null ? 2 : budget.hard && budget.exhausted ? 1 : 0);
  return [...budgets].sort((a, b) => rank(b) - rank(a) || fullness(b) - fullness(a) || a.name.localeCompare(b.name));
}

const nearly = 90; // Percent.

export interface Standing {
  word: string;
  tone: "bad" | "wait" | "quiet";
  why: string;
}

export function standing(budget: Budget): Standing {
  const settled = units(budget.settled);
  const limit = units(budget.limit);
  if (budget.frozen !== null) return { word: "frozen", tone: "bad", why: budget.frozen };
  if (budget.exhausted || settled >= limit) {
    if (!budget.hard) return { word: "over its limit", tone: "wait", why: "soft: nothing is refused" };
    const why = settled >= limit ? "calls, charges and runs that it covers are refused" : "the last request needed more than is free";
    return { word: "used up", tone: "bad", why };
  }
  if (settled + units(budget.held) >= limit) return { word: "all held", tone: "wait", why: "the rest is held for open calls" };
  const passed = budget.warn.filter((each) => settled * 100n >= limit * BigInt(each)).pop();
  if (passed !== undefined) return { word: `over ${passed} %`, tone: "wait", why: `warns at ${budget.warn.join(", ")} %` };
  if (fullness(budget) >= nearly) return { word: "nearly used up", tone: "wait", why: "" };
  return { word: "ok", tone: "quiet", why: "" };
}

/** Effect of a used up budget. */
export function exhaustion_words(budget: Budget): string {
  const until = budget.window.kind === "total" ? "until the limit is raised" : "until the window resets or the limit is raised";
  if (budget.on_exhausted === "pause_agent") return `agents that exceed it are paused ${until}`;
  if (budget.on_exhausted === "stop_runs") return "the runs that it covers are cancelled";
  return budget.hard ? `calls, charges and runs are refused ${until}` : "none: a soft budget only warns";
}
