// Sessions: list with filters, messages, tokens and cost.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { query as path_of } from "../lib/api";
import { useSelectedRow } from "../lib/selected_row";
import type { FeedEvent } from "../lib/feed";
import { useKeys } from "../lib/keys";
import { useLive } from "../lib/live";
import { choose, go, link } from "../lib/route";
import type { Page, Session } from "../lib/types";
import { count, shell_command } from "../lib/words";
import { useKept } from "../ui/list";
import { Empty, Screen, Section, ErrorMessage, Loading } from "../ui/parts";
import { Ago, Badge, Id, Money } from "../ui/words";
import { SessionScreen } from "./session";

const page_size = 60;
const agents_change = ["agent_changed", "agent_archived"];

export function Sessions({ path, query }: { path: string[]; query: URLSearchParams }) {
  return path[0] ? <SessionScreen key={path[0]} id={path[0]} query={query} /> : <List query={query} />;
}

function List({ query }: { query: URLSearchParams }) {
  const agent = query.get("agent") ?? "";
  const text = query.get("q") ?? "";
  const chosen = agent !== "" || text !== "";
  return (
    <Screen title="Sessions" summary="Messages, tokens and cost of each session"
      command={shell_command("interlock", "sessions", "ls", ...(agent ? ["--agent", agent] : []), ...(text ? ["--search", text] : []))}>
      <Section title={chosen ? "Matching sessions" : "Newest first"} aside={<Filters agent={agent} text={text} />}>
        <Pages agent={agent} text={text} />
      </Section>
    </Screen>
  );
}

function Filters({ agent, text }: { agent: string; text: string }) {
  const agents = useLive<Page<{ name: string }>>("v1/agents?limit=500", agents_change);
  const names = agents.data?.items.map((each) => each.name) ?? [];
  if (agent && !names.includes(agent)) names.push(agent);
  useKeys(useMemo(() => ({ "/": () => document.getElementById("session-text")?.focus() }), []));
  return (
    <form class="row" role="search" onSubmit={(event) => event.preventDefault()}>
      <label class="inline">
        <span class="unseen">title, agent or id</span>
        <input id="session-text" type="search" placeholder="title, agent or id" value={text}
          onInput={(event) => choose({ q: event.currentTarget.value })} />
      </label>
      <label class="inline">
        <span class="dim">agent</span>
        <select value={agent} onChange={(event) => choose({ agent: event.currentTarget.value })}>
          <option value="">all</option>
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      {(agent || text) && <button type="button" class="plain" onClick={() => choose({ agent: undefined, q: undefined })}>Clear filters</button>}
    </form>
  );
}

const heads: { title: string; of: string }[] = [
  { title: "session", of: "" }, { title: "agent", of: "" }, { title: "messages", of: "number" }, { title: "tokens", of: "number wide" },
  { title: "cost", of: "number" }, { title: "created", of: "number" }, { title: "fork of", of: "wide" }, { title: "state", of: "wide" },
];

/** One table of several pages. Each page is read again by itself. */
function Pages({ agent, text }: { agent: string; text: string }) {
  const [pages, set_pages] = useState(1);
  const [ids, set_ids] = useState<string[][]>([]);
  const chosen = useSelectedRow(ids.slice(0, pages).flat(), (id) => go("sessions", id));
  const show_ids = (page: number, shown: string[]) => set_ids((all) => Object.assign([...all], { [page]: shown }));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Sessions">
      <table>
        <thead><tr>{heads.map((head) => <th key={head.title} scope="col" class={head.of}>{head.title}</th>)}</tr></thead>
        <OnePage agent={agent} text={text} after="" page={0} pages={pages} chosen={chosen} shown={show_ids} more={() => set_pages(pages + 1)} />
      </table>
    </div>
  );
}

/** A page and the pages after it. A page begins where the page before it ends now. */
function OnePage(what: {
  agent: string;
  text: string;
  after: string;
  page: number;
  pages: number;
  chosen: string | undefined;
  shown: (page: number, ids: string[]) => void;
  more: () => void;
}) {
  const { agent, text, after, page, pages, chosen } = what;
  const ids = useRef(new Set<unknown>());
  const changes = useMemo(() => (event: FeedEvent) => (event.type === "session_created" ? page === 0 : ids.current.has(event.data.session)), []);
  const live = useLive<Page<Session>>(path_of("v1/sessions", { agent, q: text, after, limit: page_size }), changes);
  const data = useKept(live.data, "any filter");
  useEffect(() => {
    const shown = data?.items.map((session) => session.id) ?? [];
    ids.current = new Set(shown);
    what.shown(page, shown);
  }, [data]);
  const row = (inside: ComponentChildren) => <tbody><tr><td colSpan={heads.length}>{inside}</td></tr></tbody>;
  if (!data) return row(live.problem ? <ErrorMessage of={live.problem} /> : <Loading />);
  if (data.items.length === 0 && page === 0 && !data.next) {
    return row(agent || text ? <Empty>No matching sessions.</Empty> : (
      <Empty command="interlock sessions create --agent coder --title 'Fix the build'">
        No sessions. Create one:
      </Empty>
    ));
  }
  return (
    <>
      {live.problem && row(<ErrorMessage of={live.problem} />)}
      <tbody>{data.items.map((session) => <Row key={session.id} session={session} chosen={session.id === chosen} />)}</tbody>
      {data.next && (page + 1 < pages
        ? <OnePage {...what} page={page + 1} after={data.next} />
        : row(
          // A search reads a limited number of sessions at a time, and may find none in them.
          <button type="button" onClick={what.more}>{text ? "Search older sessions" : "Show more"}</button>,
        ))}
    </>
  );
}

function Row({ session, chosen }: { session: Session; chosen: boolean }) {
  const open = (event: MouseEvent) => (event.target as HTMLElement).closest("a") || go("sessions", session.id);
  return (
    <tr class="opens" aria-selected={chosen} onClick={open}>
      <td><a class="title" href={link("sessions", session.id)} title={session.id}>{session.title || <Unnamed />}</a></td>
      <td>{session.agent}</td>
      <td class="number">{count(session.messages)}</td>
      <td class="number wide"><Tokens of={session} /></td>
      <td class="number"><Money value={session.spent} /></td>
      <td class="number"><Ago at={session.created_at} /></td>
      <td class="wide">{session.parent && <><Id of={session.parent} /> <small class="dim">at {session.first_seq - 1}</small></>}</td>
      <td class="wide">{session.closed ? <Badge>closed</Badge> : <span class="dim">open</span>}</td>
    </tr>
  );
}

function Unnamed() {
  return <span class="dim">untitled</span>;
}

export function Tokens({ of }: { of: Pick<Session, "input_tokens" | "output_tokens"> }) {
  return <span class="number" title={`${of.input_tokens} in, ${of.output_tokens} out`}>{count(of.input_tokens + of.output_tokens)}</span>;
}
