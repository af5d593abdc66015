// Recent model calls, and one of them in a dialog.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { query as with_parameters } from "../lib/api";
import { refresh, useFeed } from "../lib/live";
import { choose } from "../lib/route";
import type { ModelCall } from "../lib/types";
import type { FeedEvent } from "../lib/feed";
import { count, length, spoken } from "../lib/words";
import { CallDialog } from "../ui/call";
import { More, useList } from "../ui/list";
import { Empty, Section, Table, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Badge, Command, Money } from "../ui/words";

/** Events of a model call. There is no event for the call itself. */
export const calls_change = ["held", "hold_released", "charged", "setting_changed"];
const nothing: string[] = [];
const recorded_after_ms = 500; // The call is recorded after its cost is settled.

const shown: [string, string][] = [["", "all"], ["failed", "failed"], ["refused", "refused by Interlock"]];

export function Calls({ query }: { query: URLSearchParams }) {
  const show = query.get("calls") ?? "";
  const upstream = query.get("upstream") ?? "";
  const path = with_parameters("v1/calls", { refused: show === "refused" ? true : undefined, upstream });
  // The API has no filter for failed calls, so they are picked from the last 1000.
  const calls = useList<ModelCall>(path, nothing, show === "failed" ? 1_000 : 30);
  const later = useRef(0);
  useFeed(useCallback((event: FeedEvent) => {
    if (!calls_change.includes(event.type) || later.current !== 0) return;
    later.current = window.setTimeout(() => {
      later.current = 0;
      refresh("v1/calls", "v1/prices/unpriced");
    }, recorded_after_ms);
  }, []));
  useEffect(() => () => clearTimeout(later.current), []);
  const rows = calls.data?.items.filter((call) => show === "" || failed(call) === (show === "failed"));
  const open = query.get("call");
  return (
    <Section title="Recent calls" id="calls" aside={<Command text={`interlock calls ls${show === "refused" ? " --refused" : ""}`} />}>
      <div class="row">
        <label class="inline">
          Show
          <select value={show} onChange={(event) => choose({ calls: event.currentTarget.value })}>
            {shown.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
          </select>
        </label>
        {upstream && <button type="button" onClick={() => choose({ upstream: undefined })} title="Show calls of all upstreams">only {upstream} ✕</button>}
        <button type="button" class="plain" onClick={calls.reload} title="refused calls have no events">Refresh</button>
      </div>
      <ErrorMessage of={calls.problem} />
      {!calls.data && !calls.problem && <Loading />}
      {rows?.length === 0 && (show || upstream
        ? <Empty>{show === "failed" ? "No failed calls among the last 1000." : "No matching calls."}</Empty>
        : <Empty command="interlock run -- claude">No calls. Start a run that calls models through the gateway:</Empty>)}
      {rows && rows.length > 0 && (
        <Table label="Calls, newest first" rows={rows} id={(call) => call.id} open={(call) => choose({ call: call.id })}
          columns={[
            { title: "time", of: (call) => (
              <a href={location.hash} onClick={(event) => { event.preventDefault(); choose({ call: call.id }); }}><Ago at={call.at} /></a>
            ) },
            { title: "agent", of: (call) => call.agent },
            { title: "model", of: (call) => <>{call.model}{call.cached && <> <Badge>cached</Badge></>}</> },
            { title: "upstream", of: (call) => call.upstream || <span class="dim">–</span>, wide: true },
            { title: "result", of: (call) => <Outcome of={call} /> },
            { title: "tokens", of: (call) => count(tokens(call)), number: true, wide: true },
            { title: "first byte", of: (call) => (
              call.first_byte_us === null ? <span class="dim">–</span> : length(call.first_byte_us / 1_000)
            ), number: true, wide: true },
            { title: "duration", of: (call) => length(call.duration_us / 1_000), number: true, wide: true },
            { title: "cost", of: (call) => (
              call.unpriced ? <Badge tone="wait">no price</Badge> : <Money value={call.cost} estimated={call.estimated} />
            ), number: true },
          ]} />
      )}
      <More of={calls} command="interlock calls ls" />
      {open && <CallDialog id={open} close={() => choose({ call: undefined })} />}
    </Section>
  );
}

/** True for a call that failed at the provider, as opposed to one that Interlock refused. */
function failed(call: ModelCall): boolean {
  return call.refusal === null ? call.status >= 400 || call.status === 0 : call.refusal.startsWith("upstream_");
}

function tokens(call: ModelCall): number {
  return Object.values(call.usage).reduce((sum, each) => sum + each, 0);
}

function Outcome({ of }: { of: ModelCall }) {
  if (of.refusal && !failed(of)) return <span class="state wait" title={of.detail}>refused: {spoken(of.refusal)}</span>;
  const words = of.refusal ? spoken(of.refusal) : of.status === 0 ? "cut off" : of.status;
  return <span class={`state ${failed(of) ? "bad" : "quiet"}`} title={of.detail}>{words}{of.attempts > 1 && `, attempt ${of.attempts}`}</span>;
}
