// A call to a model: what was remarkable about it, and all of it with its money.
import type { ComponentChildren } from "preact";
import { useLive } from "../lib/live";
import type { CallDetail, ModelCall, Usage } from "../lib/types";
import { length, shell_command, spoken } from "../lib/words";
import { Dialog, Trouble, Waiting } from "./parts";
import { Ago, Badge, Command, Id, Money, State } from "./words";

export function CallMarks({ call }: { call: ModelCall }) {
  return (
    <span class="row marks">
      {call.refusal && <Badge tone="bad" title={call.detail}>{spoken(call.refusal)}</Badge>}
      {!call.refusal && call.status >= 400 && <Badge tone="bad" title={call.detail}>{call.status}</Badge>}
      {!call.refusal && call.status === 0 && <Badge tone="bad" title={call.detail}>cut off</Badge>}
      {call.unpriced && !call.refusal && <Badge tone="wait" title="no price is known for this model">unpriced</Badge>}
      {call.estimated && <Badge tone="wait" title="what it used was not told in full">estimated</Badge>}
      {call.cached && <Badge tone="good" title="answered from memory">cached</Badge>}
      {call.attempts > 1 && <Badge>{call.attempts} attempts</Badge>}
    </span>
  );
}

const never: string[] = []; // What is recorded of a call does not change.

/** From the most that a call could cost to what it did. */
export function CallDialog({ id, close }: { id: string; close: () => void }) {
  const { data: call, problem } = useLive<CallDetail>(`v1/calls/${encodeURIComponent(id)}`, never);
  return (
    <Dialog title="A call and its money" close={close} wide>
      <Trouble of={problem} />
      {!call && !problem && <Waiting />}
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
  const by = call.cached ? "from memory" : call.upstream ? `by ${call.upstream}` : "by nobody";
  const first_byte = call.first_byte_us === null ? "" : `, the first byte after ${length(call.first_byte_us / 1000)}`;
  return (
    <>
      {bad && call.detail && <p class="trouble">{call.detail}</p>}
      <Facts of={[
        ["asked", <>{call.operation} of {call.provider && `${call.provider} `}<strong>{call.model}</strong>{call.streamed && ", as a stream"}</>],
        ["answered", <>{by}{call.status > 0 && ` with ${call.status}`} <CallMarks call={call} /></>],
        ["ended by", !bad && call.detail],
        ["when", <><Ago at={call.at} />, took {length(call.duration_us / 1000)}{first_byte}</>],
        ["who", <>{call.agent}{call.run && <> in <Id of={call.run} /></>}{call.session && <>, <Id of={call.session} /></>}, by key <code>{call.api_key}</code></>],
        ["tags", Object.entries(call.tags).map(([name, value]) => `${name}=${value}`).join("  ")],
      ]} />
      <div class="halves">
        <section>
          <h3>Held</h3>
          {held ? (
            <Facts of={[
              ["at most", <Money value={held.amount} />],
              ["hold", <Id of={held.id} />],
              ["state", <State of={held.status} />],
              ["sent", held.dispatched ? "yes" : "no: nothing can have been spent"],
              ["held", <><Ago at={held.created_at} />{held.closed_at && `, for ${length(Date.parse(held.closed_at) - Date.parse(held.created_at))}`}</>],
            ]} />
          ) : <p class="dim">Nothing was held for it{call.refusal ? ": it was refused before" : ""}.</p>}
        </section>
        <section>
          <h3>Settled</h3>
          {settled ? (
            <Facts of={[
              ["cost", <><Money value={settled.cost} estimated={settled.estimated} />{settled.corrected && " after corrections"}</>],
              ["over the hold", /[1-9]/.test(settled.overage) && <Money value={settled.overage} />],
              ["tokens", tokens(settled.usage) || "none"],
              ["price", settled.price ? <code>{settled.price}</code> : "none was known"],
              ["in the ledger", <>event {settled.seq.toLocaleString("en")}, <Ago at={settled.at} /></>],
            ]} />
          ) : <p class="dim">Nothing was settled; what was held, if anything, went back whole.</p>}
        </section>
      </div>
    </>
  );
}
