// Budgets: limit, settled, held and free of each, and its state.
import { useEffect } from "preact/hooks";
import { get } from "../lib/api";
import { fullest_first, fullness, scope_words, standing, window_words } from "../lib/budgets";
import { of_money } from "../lib/changes";
import { useSelectedRow } from "../lib/selected_row";
import { refresh, useLive } from "../lib/live";
import { go, link } from "../lib/route";
import type { Budget, Page, UnpricedModel, VerifyReport } from "../lib/types";
import { amount, units } from "../lib/words";
import { Amount } from "../ui/amount";
import { More, useList, ReadError } from "../ui/list";
import { Action, Bar, Empty, Screen, Section, Table, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Badge } from "../ui/words";
import { BudgetScreen } from "./budget";

const prices_change = ["setting_changed"];
const nothing: string[] = [];
const wait_max_ms = 2 ** 31 - 1; // setTimeout() fires at once for longer delays.

export function Budgets({ path }: { path: string[]; query: URLSearchParams }) {
  return path[0] ? <BudgetScreen key={path[0]} name={path[0]} /> : <List />;
}

/** Reloads when a window resets, because a reset has no event. */
export function useWindowReset(ends: (string | null)[], reload: () => void): void {
  const next = Math.min(...ends.map((end) => (end ? Date.parse(end) : Infinity)));
  useEffect(() => {
    const wait = next - Date.now();
    if (wait < 0 || wait > wait_max_ms) return;
    const timer = setTimeout(reload, wait + 200);
    return () => clearTimeout(timer);
  }, [next]);
}

function List() {
  const list = useList<Budget>("v1/budgets", of_money, 500);
  const { data, problem, reload } = list;
  const budgets = fullest_first(data?.items ?? []);
  useWindowReset(budgets.map((each) => each.window.end), reload);
  const open = (name: string) => go("budgets", name);
  const chosen = useSelectedRow(budgets.map((each) => each.name), open);
  return (
    <Screen title="Budgets" summary="Limit, settled, held and free of each budget" command="interlock budgets ls">
      <div class="row spread">
        <Balance />
        <UnpricedBadge />
      </div>
      <Section title="By use, highest first">
        <ErrorMessage of={problem} />
        {!data && !problem && <Loading />}
        {data && budgets.length === 0 && (
          <Empty command="interlock budgets put daily --limit 10.00 --window day">
            No budgets. Create one:
          </Empty>
        )}
        {budgets.length > 0 && (
          <Table label="Budgets" rows={budgets} id={(budget) => budget.name} open={(budget) => open(budget.name)} chosen={chosen ?? ""}
            columns={[
              { title: "budget", of: (budget) => <Name of={budget} /> },
              { title: "window", of: (budget) => <Window of={budget} />, wide: true },
              { title: "settled, held, free", of: (budget) => <Figures of={budget} /> },
              { title: "used", of: (budget) => <Used of={budget} />, number: true, wide: true },
              { title: "limit", of: (budget) => <Amount value={budget.limit} metric={budget.metric} />, number: true, wide: true },
              { title: "state", of: (budget) => <BudgetState of={budget} />, wide: true },
            ]} />
        )}
        <More of={list} command="interlock budgets ls" />
      </Section>
    </Screen>
  );
}

function Name({ of }: { of: Budget }) {
  return (
    <div class="name">
      <a href={link("budgets", of.name)}>{of.name}</a>
      <small class="dim">{scope_words(of.scope)}</small>
      <small class="narrow"><BudgetState of={of} /></small>
    </div>
  );
}

function Window({ of }: { of: Budget }) {
  return (
    <div class="name">
      {window_words(of)}
      {of.window.end && <small class="dim">resets <Ago at={of.window.end} /></small>}
    </div>
  );
}

function Figures({ of }: { of: Budget }) {
  return (
    <div class="figures">
      <BudgetBar of={of} />
      <small class="row">
        <span class="key"><Amount value={of.settled} metric={of.metric} bare /> settled</span>
        <span class="key held"><Amount value={of.held} metric={of.metric} bare /> held</span>
        <span class="key free"><Amount value={of.free} metric={of.metric} bare /> free</span>
        <span class="narrow">of <Amount value={of.limit} metric={of.metric} /></span>
      </small>
    </div>
  );
}

export function BudgetBar({ of }: { of: Budget }) {
  const words = (value: string) => amount(value, of.metric);
  return (
    <Bar settled={units(of.settled)} held={units(of.held)} limit={units(of.limit)}
      label={`${words(of.settled)} settled, ${words(of.held)} held, ${words(of.free)} free of ${words(of.limit)}`} />
  );
}

function Used({ of }: { of: Budget }) {
  return <span title="settled and held, of the limit">{Math.floor(fullness(of))} %</span>;
}

export function BudgetState({ of }: { of: Budget }) {
  const { word, tone, why } = standing(of);
  return (
    <span class="row tight">
      <span class={`state ${tone}`} title={why}>{word}</span>
      {!of.hard && <Badge title="only warns">soft</Badge>}
    </span>
  );
}

interface LastVerify {
  at: string | null;
  report: VerifyReport | null;
}

/** Result and time of the last check of the ledger. */
function Balance() {
  const { data, problem } = useLive<LastVerify>("v1/verify/last", nothing);
  const check = async () => {
    await get("v1/verify");
    refresh("v1/verify/last");
  };
  const broken = data?.report?.promises.filter((each) => each.violations > 0) ?? [];
  return (
    <div class="row">
      {data?.report && (broken.length === 0
        ? <span class="state good" title={`${data.report.cost_events} cost events, checked in ${data.report.milliseconds} ms`}>Ledger balanced</span>
        : <a class="state bad" href={link("system")}>{broken.map((each) => `${each.title}: ${each.violations} violations`).join("; ")}</a>)}
      <span class="dim">{data && (data.at ? <>checked <Ago at={data.at} /></> : "The ledger has not been checked since the server started.")}</span>
      {problem?.status !== 403 && <Action needs="read" act={check} title="interlock verify">Check now</Action>}
      <ReadError of={problem} />
    </div>
  );
}

/** Models without a price. No budget counts the cost of their calls. */
export function UnpricedBadge() {
  const { data } = useLive<Page<UnpricedModel>>("v1/prices/unpriced", prices_change);
  const many = data?.items.length ?? 0;
  if (many === 0) return null;
  const names = data!.items.slice(0, 8).map((each) => `${each.provider}/${each.model}: ${each.calls} calls`).join("\n");
  return <a href={link("gateway")} title={names}><Badge tone="wait">{many === 1 ? "1 model has" : `${many} models have`} no price</Badge></a>;
}
