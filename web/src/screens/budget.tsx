// One budget: what is free, for how long at the present rate, its holds, and the calls that it refused.
import { useMemo, useState } from "preact/hooks";
import { Problem, send } from "../lib/api";
import { exhaustion_words, fullness, scope_words, standing, window_words } from "../lib/budgets";
import { of_money } from "../lib/changes";
import { useNow } from "../lib/clock";
import { refresh, useLive } from "../lib/live";
import { useMay } from "../lib/me";
import { link, useTitle } from "../lib/route";
import type { Budget, BudgetLine, Hold, ModelCall, Page } from "../lib/types";
import { amount, exact, exact_amount, height, moment, percent, shell_command, spoken, units } from "../lib/words";
import { Amount } from "../ui/amount";
import { Chart, type Line } from "../ui/chart";
import { More, useList } from "../ui/list";
import { Action, Bar, Dialog, ErrorMessage, Loading, no_right, Screen, Section, Table, Tile } from "../ui/parts";
import { Ago, Badge, Command, Id } from "../ui/words";
import { BudgetBar, BudgetState, UnpricedBadge, useWindowReset } from "./budgets";

const windows_at_a_time = 8;
const calls_looked_at = 200;
// Refusals have no events, and the fewer there are, the longer the search takes. So it runs only after these events.
const refusals_change = ["budget_exhausted", "budget_froze", "budget_thawed", "budget_changed", "agent_paused"];

export function BudgetScreen({ name }: { name: string }) {
  const path = `v1/budgets/${encodeURIComponent(name)}`;
  const { data, problem, reload } = useLive<Budget>(path, of_money);
  const line = useLive<BudgetLine>(`${path}/line`, of_money);
  useWindowReset([data?.window.end ?? null], () => (reload(), line.reload()));
  const [changing, change] = useState(false);
  useTitle(name);
  const may_operate = useMay("operate");
  const title = <><a href={link("budgets")}>Budgets</a> <span class="dim">/</span> {name}</>;
  const covers = data && `${scope_words(data.scope)}, ${window_words(data)}`;
  return (
    <Screen title={title} summary={covers} command={shell_command("interlock", "budgets", "show", name)} actions={data && (
      <>
        {data.metric === "usd" && <UnpricedBadge />}
        {data.frozen !== null && (
          <Action act={async () => { await send("POST", `${path}/unfreeze`); refresh("v1/budgets"); }}
            confirm={<><p>Frozen: {data.frozen}.</p><p>Charges are accepted again, up to what is free.</p></>}>
            Unfreeze budget
          </Action>
        )}
        <button type="button" disabled={!may_operate} title={may_operate ? undefined : no_right} onClick={() => change(true)}>
          Change limit
        </button>
      </>
    )}>
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      {data && (
        <>
          <Figures budget={data} />
          <div class="columns">
            <BurnDown budget={data} line={line.data} problem={line.problem} />
            <Rules budget={data} />
          </div>
          <div class="halves">
            {data.window.kind !== "total" && <Windows budget={data} path={path} />}
            <Holds budget={data} />
          </div>
          <Refusals budget={data} />
        </>
      )}
      {changing && data && <ChangeLimit budget={data} path={path} close={() => change(false)} />}
    </Screen>
  );
}

function Figures({ budget }: { budget: Budget }) {
  const { tone } = standing(budget);
  const figure = (value: string) => <Amount value={value} metric={budget.metric} bare />;
  const used = Math.floor(percent(units(budget.settled), units(budget.limit)));
  return (
    <div class="stack budget">
      <div class="tiles">
        <Tile name="settled" value={figure(budget.settled)} note={`${used} % of the limit`} tone={tone} />
        <Tile name="held" value={figure(budget.held)} note={`${budget.open_holds} open holds`} />
        <Tile name="free" value={figure(budget.free)} note={budget.window.end ? <>window resets <Ago at={budget.window.end} /></> : "in total"} />
        <Tile name="limit" value={figure(budget.limit)} note={budget.metric === "usd" ? "dollars" : budget.metric} />
      </div>
      <BudgetBar of={budget} />
    </div>
  );
}

function Rules({ budget }: { budget: Budget }) {
  const { word, why } = standing(budget);
  return (
    <Section title="Rules">
      <dl class="facts">
        <dt>state</dt><dd><BudgetState of={budget} />{why && word !== "ok" && <div class="dim">{why}</div>}</dd>
        <dt>covers</dt><dd>{scope_words(budget.scope)}</dd>
        <dt>window</dt><dd>{window_words(budget)}{budget.window.end && <span class="dim">, resets {moment(new Date(budget.window.end))}</span>}</dd>
        <dt>limit</dt>
        <dd>{budget.hard ? "hard: calls that could exceed it are refused; a cost above the hold freezes it" : "soft: exceeding it only warns"}</dd>
        <dt>warns</dt><dd>{budget.warn.length > 0 ? `at ${budget.warn.join(", ")} %` : <span class="dim">no warnings</span>}</dd>
        <dt>if used up</dt><dd>{exhaustion_words(budget)}</dd>
        <dt>created</dt><dd><Ago at={budget.created_at} /></dd>
      </dl>
    </Section>
  );
}

// ---- forecast -------------------------------------------------------------------------------------------------------

/** Forecast as a sentence. */
function outlook(budget: Budget, line: BudgetLine): string {
  const words = (value: string) => amount(value, line.metric);
  const rate = units(line.rate_per_hour);
  const pace = `at ${words(line.rate_per_hour)} per hour`;
  if (budget.frozen !== null) return "Frozen: charges and calls are refused until you unfreeze the budget.";
  if (units(line.settled) >= units(line.limit)) {
    const turns = line.end ? ` The window resets ${moment(new Date(line.end))}.` : "";
    return budget.hard ? `Used up.${turns}` : `Over the limit by ${amount(exact(units(line.settled) - units(line.limit)), line.metric)}.${turns}`;
  }
  if (budget.hard && budget.exhausted) return `Used up: ${words(budget.free)} is free, and the last request needed more.`;
  if (line.used_up_at) return `Forecast: used up ${moment(new Date(line.used_up_at))}, ${pace}.`;
  if (rate === 0n) return `No cost at present: ${words(line.settled)} of ${words(line.limit)} so far.`;
  if (!line.end) return `Forecast: not used up, ${pace}.`;
  return `Forecast: ${words(line.projected ?? line.settled)} of ${words(line.limit)} by ${moment(new Date(line.end))}, ${pace}.`;
}

/** Lines of the remaining budget over the window: past, even use, and forecast at the present rate. */
function burn_down(budget: Budget, line: BudgetLine, now_ms: number): { times: number[]; lines: Line[] } {
  const limit = units(line.limit);
  const left = (settled: string) => height(limit > units(settled) ? limit - units(settled) : 0n);
  const past = line.points.filter((point) => Date.parse(point.at) < now_ms).map((point) => ({ at: Date.parse(point.at), left: left(point.settled) }));
  past.push({ at: now_ms, left: left(line.settled) });
  const start = line.start ? Date.parse(line.start) : past[0]!.at;
  const end = line.end ? Date.parse(line.end) : undefined;
  const used_up = line.used_up_at ? Date.parse(line.used_up_at) : undefined;
  const projected = line.projected ?? line.settled;
  const ahead: { at: number; left: number }[] = [];
  // Without an end of the window, the forecast is at most twice as long as the past.
  const near = used_up !== undefined && (end !== undefined || used_up - now_ms < 2 * (now_ms - start));
  if (near && used_up > now_ms) ahead.push({ at: used_up, left: 0 });
  if (end !== undefined && end > now_ms && end !== used_up) ahead.push({ at: end, left: used_up === undefined ? left(projected) : 0 });
  const times = [...past, ...ahead].map((each) => each.at);
  const even = (at: number) => (height(limit) * (end! - at)) / (end! - start);
  const lines: Line[] = [
    { name: "remaining", tone: "accent", values: [...past.map((each) => each.left), ...ahead.map(() => null)] },
    ...(end === undefined ? [] : [{ name: "even use", tone: "limit" as const, dashed: true, values: times.map(even) }]),
    ...(ahead.length === 0 || budget.frozen !== null ? [] : [{
      name: "at this rate", tone: used_up === undefined ? "held" as const : "bad" as const, dashed: true,
      values: [...past.slice(1).map(() => null), past[past.length - 1]!.left, ...ahead.map((each) => each.left)],
    }]),
  ];
  return { times: times.map((at) => at / 1000), lines };
}

function BurnDown({ budget, line, problem }: { budget: Budget; line: BudgetLine | undefined; problem: Problem | undefined }) {
  const now = useNow(60_000);
  const drawn = useMemo(() => line && burn_down(budget, line, now), [line, now, budget.frozen]);
  const figure = (value: number) => amount(value.toFixed(9), budget.metric);
  return (
    <Section title="Remaining" aside={<Command text={shell_command("interlock", "budgets", "line", budget.name)} />}>
      <ErrorMessage of={problem} />
      {!line && !problem && <Loading />}
      {line && drawn && (
        <>
          <p>{outlook(budget, line)}</p>
          {drawn.times.length > 1 && <Chart tall label={`Remaining budget of ${budget.name} over its window. ${outlook(budget, line)}`}
            times={drawn.times} lines={drawn.lines} figure={figure}
            rows={{
              heads: ["time", "settled", "remaining"],
              cells: line.points.map((point) => [
                new Date(point.at).toLocaleString("en-GB"), point.settled, exact(units(line.limit) - units(point.settled)),
              ]).reverse(),
            }} />}
        </>
      )}
    </Section>
  );
}

interface PastWindow {
  start: string | null;
  end: string | null;
  limit: string;
  settled: string;
  held: string;
}

function window_name(start: string, budget: Budget): string {
  if (start === budget.window.start) return "current";
  const at = new Date(start);
  const zone = { timeZone: budget.timezone };
  if (budget.window.kind === "month") return at.toLocaleDateString("en-GB", { ...zone, month: "long", year: "numeric" });
  const day = at.toLocaleDateString("en-GB", { ...zone, weekday: "short", day: "numeric", month: "short" });
  return budget.window.kind === "week" ? `week from ${day}` : day;
}

function Windows({ budget, path }: { budget: Budget; path: string }) {
  const list = useList<PastWindow>(`${path}/windows`, of_money, windows_at_a_time);
  const { data, problem } = list;
  return (
    <Section title="Windows" aside={<Command text={shell_command("interlock", "budgets", "windows", budget.name)} />}>
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <p class="empty">No windows with a cost.</p>}
      {data && data.items.length > 0 && (
        <Table label={`Windows of ${budget.name}`} rows={data.items} id={(window) => window.start ?? ""}
          columns={[
            { title: "window", of: (window) => <span class="once">{window_name(window.start!, budget)}</span> },
            { title: "settled", of: (window) => <WindowBar of={window} metric={budget.metric} /> },
            { title: "amount", of: (window) => <Amount value={window.settled} metric={budget.metric} bare />, number: true },
            { title: "of", of: (window) => <Amount value={window.limit} metric={budget.metric} bare />, number: true },
            { title: "used", of: (window) => `${Math.floor(percent(units(window.settled), units(window.limit)))} %`, number: true, wide: true },
          ]} />
      )}
      <More of={list} command={shell_command("interlock", "budgets", "windows", budget.name)} />
    </Section>
  );
}

function WindowBar({ of, metric }: { of: PastWindow; metric: Budget["metric"] }) {
  return (
    <div class="windowed">
      <Bar settled={units(of.settled)} held={units(of.held)} limit={units(of.limit)}
        label={`${amount(of.settled, metric)} of ${amount(of.limit, metric)}`} />
    </div>
  );
}

// ---- holds and refusals ---------------------------------------------------------------------------------------------

function Holds({ budget }: { budget: Budget }) {
  const { data, problem } = useLive<Page<Hold>>("v1/holds?status=open&limit=200", of_money);
  const part = (hold: Hold) => hold.budgets.find((each) => each.budget === budget.name);
  const holds = data?.items.filter(part) ?? [];
  return (
    <Section title="Open holds" aside={<Command text="interlock holds ls --status open" />}>
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      {data && holds.length === 0 && <p class="empty">No open holds.</p>}
      {holds.length > 0 && (
        <Table label={`Open holds on ${budget.name}`} rows={holds.slice(0, 50)} id={(hold) => hold.id}
          columns={[
            { title: "hold", of: (hold) => <Id of={hold.id} /> },
            { title: "agent", of: (hold) => hold.agent },
            { title: "for", of: (hold) => (hold.run ? <Id of={hold.run} /> : hold.model), wide: true },
            { title: "since", of: (hold) => <Ago at={hold.created_at} />, number: true },
            { title: "ends", of: (hold) => <Ago at={hold.expires_at} />, number: true, wide: true },
            { title: "amount", of: (hold) => <Amount value={part(hold)!.amount} metric={budget.metric} bare />, number: true },
          ]} />
      )}
      {(holds.length > 50 || data?.next) && <p class="dim">Only the oldest are shown. The command lists all.</p>}
    </Section>
  );
}

interface Refusal {
  last: ModelCall;
  times: number;
}

/** Refused calls are repeated, so calls with the same agent, model and reason are one row with the last call. */
function refusals_of(calls: ModelCall[], budget: string): Refusal[] {
  const found = new Map<string, Refusal>();
  for (const call of calls) {
    // The gateway quotes the name of the budget in the detail of the refusal.
    if (!call.detail.includes(`'${budget}'`)) continue;
    const key = JSON.stringify([call.agent, call.model, call.refusal]);
    const known = found.get(key);
    if (known) known.times += 1;
    else found.set(key, { last: call, times: 1 });
  }
  return [...found.values()];
}

function Refusals({ budget }: { budget: Budget }) {
  const { data, problem, reload } = useLive<Page<ModelCall>>(`v1/calls?refused=true&limit=${calls_looked_at}`, refusals_change);
  const refusals = useMemo(() => refusals_of(data?.items ?? [], budget.name), [data, budget.name]);
  const among = data?.next ? ` among the last ${calls_looked_at} refusals` : "";
  return (
    <Section title="Refused calls" aside={(
      <div class="row">
        <button type="button" onClick={reload}>Refresh</button>
        <Command text="interlock calls ls --refused" />
      </div>
    )}>
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      {data && refusals.length === 0 && <p class="empty">No refused calls{among}.</p>}
      {refusals.length > 0 && (
        <Table label={`Calls that ${budget.name} refused`} rows={refusals} id={({ last }) => last.id}
          columns={[
            { title: "last", of: ({ last }) => <Ago at={last.at} /> },
            { title: "times", of: ({ times }) => times, number: true },
            { title: "agent", of: ({ last }) => last.agent },
            { title: "model", of: ({ last }) => last.model, wide: true },
            { title: "reason", of: ({ last }) => <Reason of={last} /> },
          ]} />
      )}
    </Section>
  );
}

function Reason({ of }: { of: ModelCall }) {
  return <div class="refusal"><Badge tone="bad">{spoken(of.refusal ?? "")}</Badge> <small class="dim">{of.detail}</small></div>;
}

// ---- change the limit -----------------------------------------------------------------------------------------------

/** Effects of another limit, shown before it is set. */
function consequences(budget: Budget, limit: bigint): string[] {
  const words = (value: bigint) => exact_amount(value, budget.metric);
  const settled = units(budget.settled);
  const used = settled + units(budget.held);
  const free = limit > used ? limit - used : 0n;
  const said = [`The limit goes from ${words(units(budget.limit))} to ${words(limit)}, for this window and later ones.`];
  said.push(`Free: ${words(free)} instead of ${words(units(budget.free))}.`);
  if (limit > units(budget.limit)) {
    if (settled < limit && budget.on_exhausted === "pause_agent") said.push("Agents that this budget paused resume at once.");
    if (used < limit) said.push("Runs that wait for this budget may start at once.");
    if (budget.frozen !== null) said.push("The budget stays frozen. Unfreeze it separately.");
  } else if (settled >= limit) {
    said.push(`${words(settled)} is already settled, so the budget is used up at once.`);
    if (budget.on_exhausted === "stop_runs") said.push("The runs that it covers are cancelled at once.");
    else if (budget.hard) said.push("Calls, charges and runs that it covers are refused.");
    if (budget.on_exhausted === "pause_agent") said.push("Agents that exceed it are paused.");
  } else if (used > limit) {
    said.push("The holds exceed what remains. Open calls are still settled. New calls are refused until holds end.");
  }
  return said;
}

function ChangeLimit({ budget, path, close }: { budget: Budget; path: string; close: () => void }) {
  const [text, set_text] = useState(budget.limit);
  const [busy, set_busy] = useState(false);
  const [problem, set_problem] = useState<Problem>();
  const form = budget.metric === "usd" ? /^\d{1,9}(\.\d{1,9})?$/ : /^\d{1,15}$/;
  const limit = form.test(text.trim()) ? units(text.trim()) : undefined;
  const same = limit === units(budget.limit);
  const put = async (event: Event) => {
    event.preventDefault();
    set_busy(true);
    set_problem(undefined);
    try {
      await send("PUT", `${path}/limit`, { limit: text.trim() });
      refresh("v1/budgets");
      close();
    } catch (error) {
      set_problem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
      set_busy(false);
    }
  };
  const raise = limit !== undefined && limit > units(budget.limit);
  return (
    <Dialog title={`Change the limit of ${budget.name}?`} close={close}>
      <form class="stack" onSubmit={put}>
        <label>
          New limit, {budget.metric === "usd" ? "in dollars" : `in ${budget.metric}`}
          <input name="limit" value={text} inputMode="decimal" autocomplete="off" onInput={(event) => set_text(event.currentTarget.value)} />
        </label>
        <div class="stack" aria-live="polite">
          {limit === undefined && <p class="dim">{budget.metric === "usd" ? "An amount like 20.00." : "A whole number."}</p>}
          {limit !== undefined && !same && <ul class="means">{consequences(budget, limit).map((each) => <li key={each}>{each}</li>)}</ul>}
          {same && <p class="dim">This is the present limit; {Math.floor(fullness(budget))} % of it is used.</p>}
        </div>
        <Command text={shell_command("interlock", "budgets", "limit", budget.name, text.trim())} />
        <ErrorMessage of={problem} />
        <div class="row end">
          <button type="button" onClick={close}>Back</button>
          <button type="submit" class={raise ? "primary" : "danger"} disabled={limit === undefined || same || busy}>
            {limit === undefined || same ? "Change limit" : `${raise ? "Raise" : "Lower"} to ${exact_amount(limit, budget.metric)}`}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
