// Budgets in words, and how full they are.
import type { Budget } from "./types";
import { percent, units } from "./words";

export function scope_words(scope: Budget["scope"]): string {
  const words = Object.entries(scope).map(([name, value]) => {
    if (name === "tags") return Object.entries(value as Record<string, string>).map(([tag, is]) => `${tag}=${is}`).join(", ");
    return `${name === "api_key" ? "key" : name} ${String(value)}`;
  });
  return words.join(", ") || "everything";
}

/** How long a window is; where it turns depends on the time zone. */
export function window_words(budget: Pick<Budget, "window" | "timezone">): string {
  if (budget.window.kind === "total") return "in all";
  return `per ${budget.window.kind}${budget.timezone === "UTC" ? "" : `, ${budget.timezone}`}`;
}

/** Settled and held of the limit, in percent. */
export function fullness(budget: Budget): number {
  return percent(units(budget.settled) + units(budget.held), units(budget.limit));
}

/** Those that nothing can be spent from come first, however full they are. */
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
    if (!budget.hard) return { word: "past its limit", tone: "wait", why: "it is soft: nothing is refused" };
    const why = settled >= limit ? "what it covers is refused" : "what was asked for last did not fit into what is left";
    return { word: "used up", tone: "bad", why };
  }
  if (settled + units(budget.held) >= limit) return { word: "all held", tone: "wait", why: "what is left is set aside for calls under way" };
  const passed = budget.warn.filter((each) => settled * 100n >= limit * BigInt(each)).pop();
  if (passed !== undefined) return { word: `past ${passed} %`, tone: "wait", why: `warns at ${budget.warn.join(", ")} %` };
  if (fullness(budget) >= nearly) return { word: "nearly used up", tone: "wait", why: "" };
  return { word: "ok", tone: "quiet", why: "" };
}

/** What happens when it is used up. */
export function exhaustion_words(budget: Budget): string {
  const until = budget.window.kind === "total" ? "until the limit is raised" : "until the window turns or the limit is raised";
  if (budget.on_exhausted === "pause_agent") return `the agent that runs into it is paused ${until}`;
  if (budget.on_exhausted === "stop_runs") return "the runs it covers are asked to stop";
  return budget.hard ? `calls, charges and runs are refused ${until}` : "nothing: it is soft, and only warns";
}
