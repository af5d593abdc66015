// One model call: badges for its result, and a dialog with its hold and its cost.
import type { ComponentChildren } from "preact";
import { useLive } from "../lib/live";
import type { CallDetail, ModelCall, Usage } from "../lib/types";
import { length, shell_command, spoken } from "../lib/words";
import { Dialog, ErrorMessage, Loading } from "./parts";
import { Ago, Badge, Command, Id, Money, State } from "./words";

export function CallMarks({ call }: { call: ModelCall }) {
  return (
    <span class="row marks">
      {call.refusal && <Badge tone="bad" title={call.detail}>{spoken(call.refusal)}</Badge>}
      {!call.refusal && call.status >= 400 && <Badge tone="bad" title={call.detail}>{call.status}</Badge>}
      {!call.refusal && call.status === 0 && <Badge tone="bad" title={call.detail}>cut off</Badge>}
      {call.unpriced && !call.refusal && <Badge tone="wait" title="the model has no price">unpriced</Badge>}
      {call.estimated && <Badge tone="wait" title="the provider did not report the usage in full">estimated</Badge>}
      {call.cached && <Badge tone="good" title="response from the cache">cached</Badge>}
      {call.attempts > 1 && <Badge>{call.attempts} attempts</Badge>}
    </span>
  );
}

const never: string[] = []; // A recorded call does not change.

/** A call with its hold and its settled cost. */
export function CallDialog({ id, close }: { id: string; close: () => void }) {
  const { data: call, problem } = useLive<CallDetail>(`v1/calls/${encodeURIComponent(id)}`, never);
  return (
    <Dialog title="Model call" close={close} wide>
      <ErrorMessage of={problem} />
      {!call && !problem && <Loading />}
      {call && <InFull call={call} />}
      <Command text={shell_command("interlock", "calls", "show", id)} />
    </Dialog>
  );
}

function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="facts">{of.filter(([, value]) => value).map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name}=`}>{value}</dd>])}</dl>;
}

function tokens(usage: Usage): string {
  return Object.entries(usage).filter(([, value]) => value > 0)
    .map(([name, value]) => `${value.toLocaleString("en")} ${spoken(name.replace("_tokens", ""))}`).join(", ");
}

function InFull({ call }: { call: CallDetail }) {
  const { held, settled } = call;
  const bad = call.refusal !== null || call.status >= 400;
  const by = call.cached ? "from the cache" : call.upstream ? `from ${call.upstream}` : "no upstream";
  const first_byte = call.first_byte_us === null ? "" : `, first byte after ${length(call.first_byte_us / 1000)}`;
  return (
    <>
      {bad && call.detail && <p class="error">{call.detail}</p>}
      <Facts of={[
        ["request", <>{call.operation} of {call.provider && `${call.provider} `}<strong>{call.model}</strong>{call.streamed && ", streamed"}</>],
        ["response", <>{by}{call.status > 0 && `, status ${call.status}`} <CallMarks call={call} /></>],
        ["end", !bad && call.detail],
        ["time", <><Ago at={call.at} />; {length(call.duration_us / 1000)}{first_byte}</>],
        ["caller", <>{call.agent}{call.run && <>, <Id of={call.run} /></>}{call.session && <>, <Id of={call.session} /></>}, API key <code>{call.api_key}</code></>],
        ["tags", Object.entries(call.tags).map(([name, value]) => `${name}=${value}`).join("  ")],
      ]} />
      <div class="halves">
        <section>
          <h3>Held</h3>
          {held ? (
            <Facts of={[
              ["amount", <Money value={held.amount} />],
              ["hold", <Id of={held.id} />],
              ["state", <State of={held.status} />],
              ["sent to the provider", held.dispatched ? "yes" : "no, so it cost nothing"],
              ["created", <><Ago at={held.created_at} />{held.closed_at && `, closed after ${length(Date.parse(held.closed_at) - Date.parse(held.created_at))}`}</>],
            ]} />
          ) : <p class="dim">No hold{call.refusal ? ": the call was refused before" : ""}.</p>}
        </section>
        <section>
          <h3>Settled</h3>
          {settled ? (
            <Facts of={[
              ["cost", <><Money value={settled.cost} estimated={settled.estimated} />{settled.corrected && " after corrections"}</>],
              ["overage", /[1-9]/.test(settled.overage) && <Money value={settled.overage} />],
              ["tokens", tokens(settled.usage) || "none"],
              ["price", settled.price ? <code>{settled.price}</code> : "none"],
              ["cost event", <> {settled.seq.toLocaleString("en")}, <Ago at={settled.at} /></>],
            ]} />
          ) : <p class="dim">No cost was settled. The hold, if any, was released.</p>}
        </section>
      </div>
    </>
  );
}
