// What was said in a session: its messages in their order, the newest at the end and live.
//
//   (1) Messages are numbered without gap and never change, so what is kept here is one stretch of numbers that grows at
//       either end. The feed only says how far the session goes by now; what is missing is read.
//   (2) A page that is open all day keeps no more than `kept_max` messages. What was let go is read again when asked for.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, Problem, query } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { type Live, useLive } from "../lib/live";
import { link } from "../lib/route";
import type { Message, Session } from "../lib/types";
import { count, shell_command, spoken } from "../lib/words";
import { LongText } from "./long_text";
import { Empty, Trouble, Waiting } from "./parts";
import { Ago, Badge, Id, Money } from "./words";

const page_size = 60;
const kept_max = 480;

/** A session, kept true by what happens in it. */
export function useSession(id: string): Live<Session> {
  const changes = useMemo(() => (event: FeedEvent) => event.data.session === id, [id]);
  return useLive<Session>(`v1/sessions/${encodeURIComponent(id)}`, changes);
}

/** Messages from `from` up to `to`, without it. An answer may end early when messages are large. */
async function read_messages(session: string, from: number, to: number): Promise<Message[]> {
  const read: Message[] = [];
  for (let next = from; next < to; ) {
    const path = `v1/sessions/${encodeURIComponent(session)}/messages`;
    const { items } = await get<{ items: Message[] }>(query(path, { after: next - 1, limit: to - next }));
    if (items.length === 0) break;
    read.push(...items);
    next = items[items.length - 1]!.seq + 1;
  }
  return read;
}

interface Stretch {
  messages: Message[];
  moved: "to" | "along"; // Somewhere else, or longer at one end and perhaps cut at the other.
}

/** One stretch of a session's messages: around `at`, or the end. */
function useMessages(session: Session | undefined, at: number | undefined, following: () => boolean) {
  const [stretch, set] = useState<Stretch>();
  const [problem, set_problem] = useState<Problem>();
  const reading = useRef(false);
  const at_end = useRef(false); // Whether the stretch is to go on as the session does.
  const kept = stretch?.messages ?? [];
  const first = kept[0]?.seq ?? 0;
  const next = kept.length > 0 ? kept[kept.length - 1]!.seq + 1 : first;
  const end = session?.next_seq ?? 0;

  const read = async (from: number, to: number, moved: Stretch["moved"], join: (read: Message[]) => Message[]) => {
    if (reading.current || !session) return;
    reading.current = true;
    try {
      const messages = join(await read_messages(session.id, from, to));
      at_end.current = (messages[messages.length - 1]?.seq ?? -1) + 1 >= end;
      set({ messages, moved });
      set_problem(undefined);
    } catch (error) {
      set_problem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
    }
    reading.current = false;
  };
  const read_around = (place: number | undefined) => {
    const from = Math.max(0, place === undefined ? end - page_size : Math.min(place, end - 1) - 10);
    return read(from, Math.min(end, from + page_size), "to", (all) => all);
  };
  const earlier = () => read(Math.max(0, first - page_size), first, "along", (all) => [...all, ...kept].slice(0, kept_max));
  const read_on = (to: number) => read(next, to, "along", (all) => [...kept, ...all].slice(-kept_max));

  useEffect(() => {
    if (stretch && at !== undefined && at >= first && at < next) set({ messages: kept, moved: "to" });
    else if (end > 0) void read_around(at);
  }, [at]);
  // Whoever reads at the end gets what comes; whoever reads elsewhere is told of it.
  useEffect(() => {
    if (!stretch) {
      if (end > 0) void read_around(at);
    } else if (at_end.current && end > next) {
      if (end - next > kept_max) {
        if (following()) void read_around(undefined);
      } else if (following() || kept.length < kept_max) {
        void read_on(end);
      }
    }
  }, [session, stretch]);
  return {
    stretch, kept, first, next, problem, earlier,
    later: () => read_on(Math.min(end, next + page_size)),
    newest: () => read_around(undefined),
    is_at_end: () => at_end.current,
  };
}

/** The message that is uppermost in the box, and where: to find it again when others came before it. */
function place_of_reading(box: HTMLElement | null): { seq: string; top: number } | undefined {
  for (const each of box?.querySelectorAll<HTMLElement>("[data-seq]") ?? []) {
    if (each.offsetTop + each.offsetHeight > box!.scrollTop) return { seq: each.dataset.seq!, top: each.offsetTop - box!.scrollTop };
  }
  return undefined;
}

/** `run`: only what this run said, unless all is asked for. `at`: the message to show. `actions`: what can be done at one. */
export function Transcript(what: TranscriptOf) {
  return <Messages key={what.session} {...what} />;
}

interface TranscriptOf {
  session: string;
  run?: string;
  at?: number;
  actions?: (message: Message) => ComponentChildren;
}

function Messages({ session, run, at, actions }: TranscriptOf) {
  const { data, problem } = useSession(session);
  const [follow, set_follow] = useState(at === undefined);
  const followed = useRef(follow);
  followed.current = follow;
  const [all, show_all] = useState(run === undefined);
  const read = useMessages(data, at, () => followed.current);
  const shown = all ? read.kept : read.kept.filter((message) => message.run === run);
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<Stretch>();
  // Asked before the new messages are drawn.
  const before = read.stretch !== drawn.current ? place_of_reading(place.current) : undefined;

  useLayoutEffect(() => {
    drawn.current = read.stretch;
    const box = place.current;
    if (!box || !read.stretch) return;
    const aim = read.stretch.moved === "to" && at !== undefined ? box.querySelector(`[data-seq="${at}"]`) : null;
    const again = before && box.querySelector<HTMLElement>(`[data-seq="${before.seq}"]`);
    if (aim) aim.scrollIntoView({ block: "center" });
    else if (read.stretch.moved === "to" || followed.current) box.scrollTop = box.scrollHeight;
    else if (again) box.scrollTop = again.offsetTop - before.top;
  }, [read.stretch]);
  useEffect(() => {
    if (!all && shown.length === 0 && read.first > 0 && read.kept.length < kept_max) void read.earlier();
  }, [read.stretch, all]);

  const scrolled = () => {
    const box = place.current!;
    set_follow(box.scrollHeight - box.scrollTop - box.clientHeight < 24 && read.is_at_end());
  };
  const to_end = async () => {
    set_follow(true);
    followed.current = true;
    if (data && read.next < data.next_seq) await read.newest();
    place.current?.scrollTo(0, place.current.scrollHeight);
  };
  if (!data) return problem ? <Trouble of={problem} /> : <Waiting />;
  if (data.next_seq === 0) {
    return <Empty command={shell_command("interlock", "sessions", "append", session, "Hello", "--role", "user")}>Nothing has been said here yet.</Empty>;
  }
  const behind = Math.max(0, data.next_seq - read.next);
  return (
    <div class="transcript">
      <div class="row">
        <span class="dim">
          {read.kept.length > 0 && `messages ${read.first} to ${read.next - 1} of ${data.next_seq}`}
          {!all && read.kept.length > shown.length && `, ${count(read.kept.length - shown.length)} of others not shown`}
        </span>
        <span class="grow" />
        {run !== undefined && (
          <label class="inline"><input type="checkbox" checked={!all} onChange={() => show_all(!all)} /> only this run's</label>
        )}
        {!data.closed && (
          <label class="inline" title="stay at the newest message">
            <input type="checkbox" checked={follow} onChange={() => (follow ? set_follow(false) : void to_end())} /> follow
          </label>
        )}
      </div>
      <Trouble of={read.problem ?? problem} />
      <div ref={place} class="messages" tabIndex={0} role="region" aria-label="Messages" onScroll={scrolled}>
        {read.first > 0 && read.kept.length > 0 && (
          <button type="button" class="plain" onClick={() => void read.earlier()}>earlier: {count(read.first)} more</button>
        )}
        {shown.length === 0 && read.kept.length > 0 && (
          <p class="empty">This run has said nothing in messages {read.first} to {read.next - 1}.</p>
        )}
        <ol>
          {shown.map((message) => (
            <Said key={message.seq} message={message} aimed={message.seq === at} inherited={message.seq < data.first_seq}
              session={session} run={run} actions={actions} />
          ))}
        </ol>
        {behind > 0 && read.kept.length > 0 && (
          <div class="row">
            <button type="button" class="plain" onClick={() => void read.later()}>later: {count(behind)} more</button>
            {behind > page_size && <button type="button" class="plain" onClick={() => void to_end()}>to the newest</button>}
          </div>
        )}
      </div>
    </div>
  );
}

interface SaidOf {
  message: Message;
  session: string;
  run?: string;
  aimed: boolean;
  inherited: boolean;
  actions?: (message: Message) => ComponentChildren;
}

/** Messages do not change: one more at the end is no reason to draw those before it again. */
class Said extends Component<SaidOf> {
  override shouldComponentUpdate(next: SaidOf): boolean {
    return (Object.keys(next) as (keyof SaidOf)[]).some((name) => next[name] !== this.props[name]);
  }
  override render() {
    return <DrawnMessage {...this.props} />;
  }
}

function DrawnMessage({ message, session, run, aimed, inherited, actions }: SaidOf) {
  const parts = useMemo(() => parts_of(message), [message]);
  const facts = message.metadata ?? {};
  const { cost, model, estimated, finish, call: _call, upstream: _upstream, tool_calls: _calls, ...others } = facts;
  const tokens = message.input_tokens + message.output_tokens;
  return (
    <li data-seq={message.seq} class={`${message.role}${aimed ? " aimed" : ""}`} aria-current={aimed ? "true" : undefined}>
      <a class="seq number" href={`${link("sessions", session)}?at=${message.seq}`} title={`message ${message.seq}`}>{message.seq}</a>
      <div class="grow">
        <div class="row about">
          <strong>{message.role}</strong>
          <small class="dim"><Ago at={message.at} /></small>
          {typeof model === "string" && <small class="dim">{model}</small>}
          {tokens > 0 && (
            <small class="dim number" title={`${message.input_tokens} tokens in, ${message.output_tokens} out`}>
              {count(message.input_tokens)} → {count(message.output_tokens)} tokens
            </small>
          )}
          {typeof cost === "string" && <small class="dim"><Money value={cost} estimated={estimated === true} /></small>}
          {typeof finish === "string" && !whole_ends.has(finish) && <Badge tone="wait" title="why the answer ended">{spoken(finish)}</Badge>}
          {message.run && message.run !== run && <small><Id of={message.run} /></small>}
          {inherited && <Badge title={`said in ${message.session}, before the fork`}>shared</Badge>}
          <span class="grow" />
          {actions?.(message)}
        </div>
        {parts.map((part, i) => (
          <div key={i} class={`part ${part.kind}`}>
            {part.head && <div class="dim">{part.head}</div>}
            <LongText text={part.text} code={part.kind !== "text"} />
          </div>
        ))}
        {parts.length === 0 && <p class="dim">no words kept: the agent's capture says what it used, not what it said</p>}
        {Object.keys(others).length > 0 && (
          <details>
            <summary class="dim">metadata</summary>
            <LongText text={JSON.stringify(others, null, 2)} code />
          </details>
        )}
      </div>
    </li>
  );
}

/** An answer that ended so is whole. */
const whole_ends = new Set(["", "stop", "end_turn", "tool_calls", "tool_use", "STOP", "completed", "stop_sequence"]);

// ---- what is in a message -------------------------------------------------------------------------------------------

interface Part {
  kind: "text" | "call" | "result" | "json";
  head?: string;
  text: string;
}

const parsed_max = 400_000; // Larger ones are shown as they are.

function parts_of(message: Message): Part[] {
  const parts = content_parts(message.content);
  const calls = message.metadata?.tool_calls;
  return Array.isArray(calls) ? [...parts, ...calls.flatMap(block_parts)] : parts;
}

function content_parts(content: string): Part[] {
  if (content === "") return [];
  const value = parsed(content);
  if (value === undefined) return [{ kind: "text", text: content }];
  return (Array.isArray(value) ? value : [value]).flatMap(block_parts);
}

/** A JSON object or array; numbers and words in quotes are text that people wrote. */
function parsed(text: string): unknown {
  if (text.length > parsed_max || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Fields = Record<string, unknown>;

/** What providers put into messages: words, calls of tools and their results. Everything else is shown as the JSON it is. */
function block_parts(value: unknown): Part[] {
  if (typeof value === "string") return [{ kind: "text", text: value }];
  if (typeof value !== "object" || value === null) return [{ kind: "json", text: JSON.stringify(value) }];
  const block = value as Fields;
  if (typeof block.text === "string") return [{ kind: "text", text: block.text }];
  if (Array.isArray(block.tool_calls)) {
    const words = typeof block.content === "string" ? content_parts(block.content) : [];
    return [...words, ...block.tool_calls.flatMap(block_parts)];
  }
  const called = (block.function ?? block.functionCall ?? block) as Fields;
  const given = called.input ?? called.arguments ?? called.args;
  if (typeof called.name === "string" && given !== undefined) {
    return [{ kind: "call", head: `calls ${called.name}`, text: readable(given) }];
  }
  if (block.type === "tool_result") {
    const inner = Array.isArray(block.content) ? block.content.flatMap(block_parts).map((part) => part.text).join("\n") : readable(block.content);
    return [{ kind: "result", head: block.is_error === true ? "the tool failed" : "result", text: inner }];
  }
  return [{ kind: "json", text: JSON.stringify(value, null, 2) }];
}

/** Arguments come as an object, or as the text of one. */
function readable(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  const inner = parsed(value);
  return inner === undefined ? value : JSON.stringify(inner, null, 2);
}
