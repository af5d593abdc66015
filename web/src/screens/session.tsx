// One session: transcript, facts and forks.
import { useMemo, useRef, useState } from "preact/hooks";
import { Problem, save, send } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { useLive } from "../lib/live";
import { useMay } from "../lib/me";
import { choose, go, link, useTitle } from "../lib/route";
import type { Message, Session, SessionTree } from "../lib/types";
import { count, shell_command, short_id } from "../lib/words";
import { Action, Dialog, ErrorMessage, Loading, no_right, Screen, Section } from "../ui/parts";
import { Transcript, useSession } from "../ui/transcript";
import { Ago, Badge, Command, Id, Money, State } from "../ui/words";
import { Tokens } from "./sessions";

export function SessionScreen({ id, query }: { id: string; query: URLSearchParams }) {
  const { data, problem } = useSession(id);
  const [fork_at, set_fork_at] = useState<number>();
  useTitle(data?.title || short_id(id));
  const at = query.get("at");
  const aim = at !== null && /^\d+$/.test(at) ? Number(at) : undefined;
  const may_act = useMay("act");
  const fork_here = useMemo(() => (message: Message) => (
    <button type="button" class="plain" disabled={!may_act} title={may_act ? "Create a session that shares the messages up to this one" : no_right}
      onClick={() => set_fork_at(message.seq)}>Fork</button>
  ), [may_act]);
  const title = <><a href={link("sessions")}>Sessions</a> <span class="dim">/</span> {data?.title || short_id(id)}</>;
  return (
    <Screen title={title} command={shell_command("interlock", "sessions", "show", id)} actions={data && (
      <>
        <Action needs="read" act={() => save(`v1/sessions/${encodeURIComponent(id)}/export`, `${id}.jsonl`)}>Export session</Action>
        {!data.closed && (
          <Action needs="act" act={() => send("POST", `v1/sessions/${id}/close`)}
            confirm="A closed session can be read and forked, but takes no more messages. It cannot be opened again.">Close session</Action>
        )}
      </>
    )}>
      {!data && (problem ? <ErrorMessage of={problem} /> : <Loading />)}
      {data && (
        <div class="session">
          <Section title="Transcript" aside={<Jump last={data.next_seq - 1} />}>
            <Transcript session={id} at={aim} actions={fork_here} />
          </Section>
          <div class="stack">
            <Facts session={data} />
            <Forks id={id} />
          </div>
        </div>
      )}
      {fork_at !== undefined && data && <MakeFork from={data} at={fork_at} close={() => set_fork_at(undefined)} />}
    </Screen>
  );
}

function Jump({ last }: { last: number }) {
  return (
    <form class="row" onSubmit={(event) => {
      event.preventDefault();
      choose({ at: new FormData(event.currentTarget).get("at")?.toString() });
    }}>
      <label class="inline">
        <span class="dim">message</span>
        <input name="at" type="number" min="0" max={Math.max(0, last)} required />
      </label>
      <button type="submit">Show</button>
    </form>
  );
}

function Facts({ session }: { session: Session }) {
  const at = session.first_seq - 1;
  return (
    <Section title="Session">
      <dl class="facts">
        <dt>id</dt><dd><code>{session.id}</code></dd>
        <dt>agent</dt><dd>{session.agent || <span class="dim">none</span>}</dd>
        <dt>state</dt><dd>{session.closed ? <Badge>closed</Badge> : <State of="open" />}</dd>
        <dt>messages</dt>
        <dd>{count(session.messages)}{session.first_seq > 0 && <span class="dim">, {count(session.first_seq)} of them shared</span>}</dd>
        <dt>tokens</dt><dd><Tokens of={session} /></dd>
        <dt>cost</dt><dd><Money value={session.spent} /></dd>
        <dt>created</dt><dd><Ago at={session.created_at} /></dd>
        {session.parent && (
          <>
            <dt>fork of</dt>
            <dd><Id of={session.parent} /> at message <a href={`${link("sessions", session.parent)}?at=${at}`}>{at}</a></dd>
          </>
        )}
        {Object.entries(session.metadata ?? {}).map(([name, value]) => [
          <dt key={name}>{name}</dt>,
          <dd key={`${name} value`}>{typeof value === "string" ? value : JSON.stringify(value)}</dd>,
        ])}
      </dl>
    </Section>
  );
}

type Branch = SessionTree["items"][number];

interface Family {
  items: Branch[];
  forks_of: Map<string, Branch[]>;
  roots: Branch[];
}

function family_of(items: Branch[]): Family {
  const ids = new Set(items.map((each) => each.id));
  const forks_of = new Map<string, Branch[]>();
  for (const each of items) forks_of.set(each.parent ?? "", [...(forks_of.get(each.parent ?? "") ?? []), each]);
  // The first session, and those whose parent is not listed.
  return { items, forks_of, roots: items.filter((each) => !ids.has(each.parent ?? "")) };
}

/** Tree of forks, with the message at which each begins. */
function Forks({ id }: { id: string }) {
  const members = useRef(new Set<unknown>());
  const changes = useMemo(() => (event: FeedEvent) => members.current.has(event.data.session) || members.current.has(event.data.parent), [id]);
  const { data, problem } = useLive<SessionTree>(`v1/sessions/${encodeURIComponent(id)}/tree`, changes);
  const family = useMemo(() => family_of(data?.items ?? []), [data]);
  members.current = useMemo(() => new Set(family.items.map((each) => each.id)), [family]);
  return (
    <Section title="Forks" aside={<Command text={shell_command("interlock", "sessions", "tree", id)} />}>
      <ErrorMessage of={problem} />
      {!data && !problem && <Loading />}
      <ul class="tree">{family.roots.map((each) => <Fork key={each.id} of={each} family={family} current={id} depth={0} />)}</ul>
      {data?.more && <p class="dim">Only a part of the forks is shown.</p>}
      {family.items.length === 1 && <p class="dim">No forks. “Fork” at a message creates a session that shares the messages up to it.</p>}
    </Section>
  );
}

const indented_max = 8; // Deeper forks are not indented further.

function Fork({ of, family, current, depth }: { of: Branch; family: Family; current: string; depth: number }) {
  const forks = family.forks_of.get(of.id) ?? [];
  const name = of.title || of.id;
  return (
    <li>
      <div class="row">
        {of.parent && <small class="dim number" title={`forked at message ${of.first_seq - 1}`}>at {of.first_seq - 1}</small>}
        {of.id === current ? <strong aria-current="true">{name}</strong> : <a href={link("sessions", of.id)} title={of.id}>{name}</a>}
        <small class="dim">{count(of.next_seq - of.first_seq)} own</small>
        {of.closed && <Badge>closed</Badge>}
      </div>
      {forks.length > 0 && (
        <ul class={depth < indented_max ? "" : "flat"}>
          {forks.map((each) => <Fork key={each.id} of={each} family={family} current={current} depth={depth + 1} />)}
        </ul>
      )}
    </li>
  );
}

function MakeFork({ from, at, close }: { from: Session; at: number; close: () => void }) {
  const [title, set_title] = useState(from.title);
  const [busy, set_busy] = useState(false);
  const [problem, set_problem] = useState<Problem>();
  const fork = async (event: Event) => {
    event.preventDefault();
    set_busy(true);
    try {
      const made = await send<Session>("POST", `v1/sessions/${from.id}/fork`, { at_seq: at, title });
      close();
      if (made) go("sessions", made.id);
    } catch (error) {
      set_problem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
      set_busy(false);
    }
  };
  return (
    <Dialog title={`Fork at message ${at}?`} close={close}>
      <form class="stack" onSubmit={fork}>
        <p>Creates a session that shares messages 0 to {at}. This session does not change.</p>
        <label>Title<input value={title} maxLength={200} onInput={(event) => set_title(event.currentTarget.value)} /></label>
        <ErrorMessage of={problem} />
        <div class="row end">
          <button type="button" onClick={close}>Back</button>
          <button type="submit" class="primary" disabled={busy}>Fork session</button>
        </div>
      </form>
    </Dialog>
  );
}
