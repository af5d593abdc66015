// Gateway: upstreams, model calls, prices, rate limits and settings.
import { useMemo } from "preact/hooks";
import { useNow } from "../lib/clock";
import { useLive } from "../lib/live";
import { link } from "../lib/route";
import type { GatewaySettings, Page, RateLimit, Upstream } from "../lib/types";
import { count, length, quoted, shell_command, spoken } from "../lib/words";
import { seconds_words } from "../lib/cron";
import { ReadError } from "../ui/list";
import { Empty, Screen, Section, Table, Loading } from "../ui/parts";
import { Ago, Badge, Command, State } from "../ui/words";
import { calls_change, Calls } from "./calls";
import { Models } from "./prices";

const worrying_percent = 5;
const settings_change = ["setting_changed"];

export function Gateway({ query }: { path: string[]; query: URLSearchParams }) {
  const upstreams = useLive<{ items: Upstream[]; since: string }>("v1/gateway/upstreams", calls_change);
  const called = upstreams.data?.items.some((each) => each.calls > 0);
  return (
    <Screen title="Gateway" summary="Upstreams, model calls, prices and rate limits" command="interlock upstreams ls">
      <Section title="Upstreams" aside={upstreams.data && <span class="dim">measured by this node since <Ago at={upstreams.data.since} /></span>}>
        <ReadError of={upstreams.problem} />
        {!upstreams.data && !upstreams.problem && <Loading />}
        {upstreams.data?.items.length === 0 && (
          <Empty command="interlock upstreams add claude --api-format anthropic --key-env ANTHROPIC_API_KEY">
            No upstreams. Add one:
          </Empty>
        )}
        {upstreams.data && upstreams.data.items.length > 0 && <Upstreams items={upstreams.data.items} />}
        {upstreams.data && (called ? <details><summary class="dim">How to use the gateway from a program</summary><HowTo /></details> : <HowTo />)}
      </Section>
      <Models />
      <div class="halves">
        <RateLimits />
        <Settings />
      </div>
      <Calls query={query} />
    </Screen>
  );
}

function Upstreams({ items }: { items: Upstream[] }) {
  const ms = (value: number | null) => (value === null ? <span class="dim">–</span> : length(value));
  return (
    <>
      <Table label="All upstreams" rows={items} id={(each) => each.name}
        columns={[
          { title: "upstream", of: (each) => (
            <span class="whole">
              <a href={`${link("gateway")}?upstream=${encodeURIComponent(each.name)}`} title="Show its calls">{each.name}</a>
              {each.simulated && <> <Badge title="Interlock generates the responses, at no cost">simulated</Badge></>}
              {each.enabled === false && <> <Badge tone="wait" title={shell_command("interlock", "upstreams", "enable", each.name)}>disabled</Badge></>}
              {each.key_found === false && <> <Badge tone="bad" title="the provider's key was not found">no key</Badge></>}
              <small class="dim under cut" title={each.url}>{each.dialect}{each.url && ` · ${each.url.replace(/^https?:\/\//, "")}`}</small>
            </span>
          ) },
          { title: "state", of: (each) => <Health of={each} /> },
          { title: "last hour", of: (each) => <Sparkline of={each} />, wide: true },
          { title: "calls/min", of: (each) => rate(each.calls_per_minute), number: true },
          { title: "errors", of: (each) => (
            <span class={each.error_percent >= worrying_percent ? "state bad" : ""} title={`${count(each.errors)} of ${count(each.calls)}`}>
              {rate(each.error_percent)} %
            </span>
          ), number: true },
          { title: "first byte p50", of: (each) => ms(each.first_byte_ms_p50), number: true, wide: true },
          { title: "p95", of: (each) => ms(each.first_byte_ms_p95), number: true },
          { title: "whole call p50", of: (each) => ms(each.duration_ms_p50), number: true, wide: true },
          { title: "p95 ", of: (each) => ms(each.duration_ms_p95), number: true, wide: true },
        ]} />
      <details class="legend">
        <summary>last hour as a table</summary>
        <div class="scroll short" tabIndex={0} role="region" aria-label="Calls of the last hour by minute">
          <table>
            <thead><tr>{["minute", "upstream", "calls", "errors"].map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
            <tbody>
              {items.flatMap((each) => [...each.minutes].reverse().filter((minute) => minute.calls + minute.errors > 0).map((minute) => (
                <tr key={each.name + minute.at}>
                  <td>{new Date(minute.at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}</td>
                  <td>{each.name}</td>
                  <td class="number">{minute.calls}</td>
                  <td class="number">{minute.errors}</td>
                </tr>
              )))}
            </tbody>
          </table>
        </div>
      </details>
    </>
  );
}

/** A rate, with one decimal below 10. */
function rate(value: number): string {
  return value === 0 || value >= 10 ? count(Math.round(value)) : value.toFixed(1);
}

function Health({ of }: { of: Upstream }) {
  return (
    <>
      <State of={of.state} title={of.state === "idle" ? "no recent calls" : undefined} />
      {of.state !== "healthy" && of.state !== "idle" && (
        <small class="dim under">
          {of.failures_in_a_row > 0 && `${of.failures_in_a_row} failures in a row`}
          {of.cooling_until && <>, next call <Ago at={of.cooling_until} /></>}
        </small>
      )}
      {of.last_error && <small class="dim under cut" title={of.last_error}>{of.last_error}</small>}
    </>
  );
}

const minutes_drawn = 60;

/** Calls per minute, with failed calls at the bottom. */
function Sparkline({ of }: { of: Upstream }) {
  const now = useNow(60_000);
  const last = Math.floor(Math.max(now, ...of.minutes.map((each) => Date.parse(each.at))) / 60_000);
  const bars = useMemo(() => {
    const known = new Map(of.minutes.map((each) => [Math.floor(Date.parse(each.at) / 60_000), each]));
    const most = Math.max(4, ...of.minutes.map((each) => each.calls));
    return Array.from({ length: minutes_drawn }, (_, i) => {
      const minute = known.get(last - minutes_drawn + 1 + i);
      return { calls: ((minute?.calls ?? 0) / most) * 26, errors: ((minute?.errors ?? 0) / most) * 26 };
    });
  }, [of.minutes, last]);
  return (
    <svg class="spark" viewBox="0 0 180 28" preserveAspectRatio="none" role="img"
      aria-label={`${of.name}: ${of.calls} calls in the last hour, ${of.errors} failed`}>
      <line x1="0" x2="180" y1="27.5" y2="27.5" />
      {bars.map((bar, i) => bar.calls > 0 && <rect key={i} x={i * 3} width="2.2" y={27 - bar.calls} height={bar.calls} />)}
      {bars.map((bar, i) => bar.errors > 0 && <rect key={`e${i}`} class="bad" x={i * 3} width="2.2" y={27 - bar.errors} height={Math.max(2, bar.errors)} />)}
    </svg>
  );
}

/** The gateway has the same address as the dashboard. */
function HowTo() {
  const base = new URL("./", location.href.split("#")[0]).href.replace(/\/$/, "");
  return (
    <div class="howto">
      <p>A program needs an Interlock API key, and one of these lines in its environment:</p>
      <Command text="export INTERLOCK_KEY=$(interlock keys create --scope agent --agent NAME --quiet)" />
      <Command text={`export OPENAI_BASE_URL=${quoted(`${base}/v1`)} OPENAI_API_KEY=$INTERLOCK_KEY`} />
      <Command text={`export ANTHROPIC_BASE_URL=${quoted(base)} ANTHROPIC_API_KEY=$INTERLOCK_KEY`} />
      <Command text={`export GOOGLE_GEMINI_BASE_URL=${quoted(base)} GEMINI_API_KEY=$INTERLOCK_KEY`} />
      <p class="dim">Runs that <code>interlock run</code> starts have these variables.</p>
    </div>
  );
}

function RateLimits() {
  const { data, problem } = useLive<Page<RateLimit>>("v1/rate-limits?limit=1000", settings_change);
  const scope_of = (match: RateLimit["match"]) => {
    const parts = Object.entries(match).filter(([, value]) => value).map(([name, value]) => `${name} ${value}`);
    return parts.length > 0 ? parts.join(", ") : "all calls";
  };
  const limit_of = (value: number | null) => (value ? count(value) : <span class="dim">no limit</span>);
  return (
    <Section title="Rate limits" aside={<Command text="interlock limits ls" />}>
      <ReadError of={problem} />
      {!data && !problem && <Loading />}
      {data?.items.length === 0 && <Empty command="interlock limits set coder --agent coder --rpm 60">No rate limits. Create one:</Empty>}
      {data && data.items.length > 0 && (
        <Table label="All rate limits" rows={data.items} id={(limit) => limit.name}
          columns={[
            { title: "limit", of: (limit) => limit.name },
            { title: "scope", of: (limit) => scope_of(limit.match) },
            { title: "requests/min", of: (limit) => limit_of(limit.requests_per_minute), number: true },
            { title: "tokens/min", of: (limit) => limit_of(limit.tokens_per_minute), number: true },
          ]} />
      )}
    </Section>
  );
}

function Settings() {
  const { data, problem } = useLive<GatewaySettings>("v1/gateway", settings_change);
  if (!data) return <Section title="Gateway settings"><ReadError of={problem} />{!problem && <Loading />}</Section>;
  const cached = data.cache_ttl_s > 0 && data.cache_keys.length > 0;
  const facts: [string, preact.ComponentChildren][] = [
    ["model without a price", `${spoken(data.unknown_model)}${data.assume_price ? `, as ${data.assume_price}` : ""}`],
    ["budget used up", data.wait_s > 0 ? `calls wait up to ${seconds_words(data.wait_s)} for holds to end` : "calls are refused at once"],
    ["response cache", cached
      ? `${seconds_words(data.cache_ttl_s)}, for ${count(data.cache_keys.length)} API keys`
      : "off; a call can use it with x-interlock-cache"],
    ["OpenTelemetry export", data.otlp.url || "off"],
    ["changed", data.changed_at ? <Ago at={data.changed_at} /> : "never"],
  ];
  return (
    <Section title="Gateway settings" aside={<Command text="interlock gateway show" />}>
      <dl class="facts">{facts.map(([fact, value]) => [<dt key={fact}>{fact}</dt>, <dd key={`${fact}=`}>{value}</dd>])}</dl>
    </Section>
  );
}
