// Calls to models: the latest of them, and one in full.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { query as with_parameters } from "../lib/api";
import { refresh, useFeed } from "../lib/live";
import { choose } from "../lib/route";
import type { ModelCall } from "../lib/types";
import type { FeedEvent } from "../lib/feed";
import { count, length, spoken } from "../lib/words";
import { CallDialog } from "../ui/call";
import { More, useList } from "../ui/list";
import { Empty, Section, Table, Trouble, Waiting } from "../ui/parts";
import { Ago, Badge, Command, Money } from "../ui/words";

/** What a call does to money is all that is heard of it. */
export const calls_change = ["held", "hold_released", "charged", "setting_changed"];
const nothing: string[] = [];
const recorded_after_ms = 500; // Money is settled first; the call is written down behind it.

const shown: [string, string][] = [["", "all"], ["failed", "failed"], ["refused", "refused here"]];

export function Calls({ query }: { query: URLSearchParams }) {
  const show = query.get("calls") ?? "";
  const upstream = query.get("upstream") ?? "";
  const path = with_parameters("v1/calls", { refused: show === "refused" ? true : undefined, upstream });
  // The API finds one status or one word at a time; those that failed are picked out of the latest.
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
    <Section title="Latest calls" id="calls" aside={<Command text={`interlock calls ls${show === "refused" ? " --refused" : ""}`} />}>
      <div class="row">
        <label class="inline">
          Show
          <select value={show} onChange={(event) => choose({ calls: event.currentTarget.value })}>
            {shown.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
          </select>
        </label>
        {upstream && <button type="button" onClick={() => choose({ upstream: undefined })} title="show those of all upstreams">only {upstream} ✕</button>}
        <button type="button" class="plain" onClick={calls.reload} title="a call that was refused is not announced">read again</button>
      </div>
      <Trouble of={calls.problem} />
      {!calls.data && !calls.problem && <Waiting />}
      {rows?.length === 0 && (show || upstream
        ? <Empty>{show === "failed" ? "Of the last thousand calls none has failed." : "No call is like that."}</Empty>
        : <Empty command="interlock run -- claude">No call was made yet. What this starts goes through the gateway:</Empty>)}
      {rows && rows.length > 0 && (
        <Table label="Calls, the latest first" rows={rows} id={(call) => call.id} open={(call) => choose({ call: call.id })}
          columns={[
            { title: "when", of: (call) => (
              <a href={location.hash} onClick={(event) => { event.preventDefault(); choose({ call: call.id }); }}><Ago at={call.at} /></a>
            ) },
            { title: "agent", of: (call) => call.agent },
            { title: "model", of: (call) => <>{call.model}{call.cached && <> <Badge>from memory</Badge></>}</> },
            { title: "upstream", of: (call) => call.upstream || <span class="dim">–</span>, wide: true },
            { title: "what became of it", of: (call) => <Outcome of={call} /> },
            { title: "tokens", of: (call) => count(tokens(call)), number: true, wide: true },
            { title: "first byte", of: (call) => (
              call.first_byte_us === null ? <span class="dim">–</span> : length(call.first_byte_us / 1_000)
            ), number: true, wide: true },
            { title: "took", of: (call) => length(call.duration_us / 1_000), number: true, wide: true },
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

/** Asked for, and not answered well: no rule of ours stood against it. */
function failed(call: ModelCall): boolean {
  return call.refusal === null ? call.status >= 400 || call.status === 0 : call.refusal.startsWith("upstream_");
}

function tokens(call: ModelCall): number {
  return Object.values(call.usage).reduce((sum, each) => sum + each, 0);
}

function Outcome({ of }: { of: ModelCall }) {
  if (of.refusal && !failed(of)) return <span class="state wait" title={of.detail}>refused: {spoken(of.refusal)}</span>;
  const words = of.refusal ? spoken(of.refusal) : of.status === 0 ? "cut off" : of.status;
  return <span class={`state ${failed(of) ? "bad" : "quiet"}`} title={of.detail}>{words}{of.attempts > 1 && `, try ${of.attempts}`}</span>;
}
