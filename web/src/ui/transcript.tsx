// Messages of a session in order, the newest at the end, kept up to date.
//
//   (1) Messages are numbered without gaps and never change, so the loaded messages are one range that grows at either
//       end. The feed only gives the session's newest number; missing messages are then loaded.
//   (2) At most `kept_max` messages stay loaded. Dropped ones are loaded again on demand.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, Problem, query } from "../lib/api";
import type { FeedEvent } from "../lib/feed";
import { type Live, useLive } from "../lib/live";
import { parts_of } from "../lib/message_parts";
import { link } from "../lib/route";
import type { Message, Session } from "../lib/types";
import { count, shell_command, spoken } from "../lib/words";
import { LongText } from "./long_text";
import { Empty, ErrorMessage, Loading } from "./parts";
import { Ago, Badge, Id, Money } from "./words";

const page_size = 60;
const kept_max = 480;

/** A session, read again after each of its events. */
export function useSession(id: string): Live<Session> {
  const changes = useMemo(() => (event: FeedEvent) => event.data.session === id, [id]);
  return useLive<Session>(`v1/sessions/${encodeURIComponent(id)}`, changes);
}

/** Messages `from` to `to`, exclusive. A response may end early if messages are large. */
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
  moved: "to" | "along"; // "to": another range. "along": longer at one end and perhaps cut at the other.
}

/** One range of a session's messages: around `at`, or the end. */
function useMessages(session: Session | undefined, at: number | undefined, following: () => boolean) {
  const [stretch, set] = useState<Stretch>();
  const [problem, set_problem] = useState<Problem>();
  const reading = useRef(false);
  const at_end = useRef(false); // Whether the range follows the end of the session.
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
  const read_around = (seq: number | undefined) => {
    const from = Math.max(0, seq === undefined ? end - page_size : Math.min(seq, end - 1) - 10);
    return read(from, Math.min(end, from + page_size), "to", (all) => all);
  };
  const earlier = () => read(Math.max(0, first - page_size), first, "along", (all) => [...all, ...kept].slice(0, kept_max));
  const read_on = (to: number) => read(next, to, "along", (all) => [...kept, ...all].slice(-kept_max));

  useEffect(() => {
    if (stretch && at !== undefined && at >= first && at < next) set({ messages: kept, moved: "to" });
    else if (end > 0) void read_around(at);
  }, [at]);
  // New messages are loaded if the range is at the end; otherwise a button offers them.
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

/** The topmost message in view and its position, to restore it after messages were added before it. */
function reading_position(box: HTMLElement | null): { seq: string; top: number } | undefined {
  for (const each of box?.querySelectorAll<HTMLElement>("[data-seq]") ?? []) {
    if (each.offsetTop + each.offsetHeight > box!.scrollTop) return { seq: each.dataset.seq!, top: each.offsetTop - box!.scrollTop };
  }
  return undefined;
}

/** `run`: only messages of this run, until all are asked for. `at`: message to show. `actions`: buttons of a message. */
export function Transcript(what: TranscriptProps) {
  return <Messages key={what.session} {...what} />;
}

interface TranscriptProps {
  session: string;
  run?: string;
  at?: number;
  actions?: (message: Message) => ComponentChildren;
}

function Messages({ session, run, at, actions }: TranscriptProps) {
  const { data, problem } = useSession(session);
  const [follow, set_follow] = useState(at === undefined);
  const followed = useRef(follow);
  followed.current = follow;
  const [all, show_all] = useState(run === undefined);
  const read = useMessages(data, at, () => followed.current);
  const shown = all ? read.kept : read.kept.filter((message) => message.run === run);
  const scroller = useRef<HTMLDivElement>(null);
  const drawn = useRef<Stretch>();
  // Measured before the new messages are rendered.
  const before = read.stretch !== drawn.current ? reading_position(scroller.current) : undefined;

  useLayoutEffect(() => {
    drawn.current = read.stretch;
    const box = scroller.current;
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
    const box = scroller.current!;
    set_follow(box.scrollHeight - box.scrollTop - box.clientHeight < 24 && read.is_at_end());
  };
  const to_end = async () => {
    set_follow(true);
    followed.current = true;
    if (data && read.next < data.next_seq) await read.newest();
    scroller.current?.scrollTo(0, scroller.current.scrollHeight);
  };
  if (!data) return problem ? <ErrorMessage of={problem} /> : <Loading />;
  if (data.next_seq === 0) {
    return <Empty command={shell_command("interlock", "sessions", "append", session, "Hello", "--role", "user")}>No messages. Append one:</Empty>;
  }
  const behind = Math.max(0, data.next_seq - read.next);
  return (
    <div class="transcript">
      <div class="row">
        <span class="dim">
          {read.kept.length > 0 && `messages ${read.first} to ${read.next - 1} of ${data.next_seq}`}
          {!all && read.kept.length > shown.length && `, ${count(read.kept.length - shown.length)} of other runs not shown`}
        </span>
        <span class="grow" />
        {run !== undefined && (
          <label class="inline"><input type="checkbox" checked={!all} onChange={() => show_all(!all)} /> only this run's messages</label>
        )}
        {!data.closed && (
          <label class="inline" title="keep the newest message in view">
            <input type="checkbox" checked={follow} onChange={() => (follow ? set_follow(false) : void to_end())} /> follow
          </label>
        )}
      </div>
      <ErrorMessage of={read.problem ?? problem} />
      <div ref={scroller} class="messages" tabIndex={0} role="region" aria-label="Messages" onScroll={scrolled}>
        {read.first > 0 && read.kept.length > 0 && (
          <button type="button" class="plain" onClick={() => void read.earlier()}>Show earlier: {count(read.first)} more</button>
        )}
        {shown.length === 0 && read.kept.length > 0 && (
          <p class="empty">No messages of this run in {read.first} to {read.next - 1}.</p>
        )}
        <ol>
          {shown.map((message) => (
            <MessageItem key={message.seq} message={message} aimed={message.seq === at} inherited={message.seq < data.first_seq}
              session={session} run={run} actions={actions} />
          ))}
        </ol>
        {behind > 0 && read.kept.length > 0 && (
          <div class="row">
            <button type="button" class="plain" onClick={() => void read.later()}>Show later: {count(behind)} more</button>
            {behind > page_size && <button type="button" class="plain" onClick={() => void to_end()}>Show the newest</button>}
          </div>
        )}
      </div>
    </div>
  );
}

interface MessageProps {
  message: Message;
  session: string;
  run?: string;
  aimed: boolean;
  inherited: boolean;
  actions?: (message: Message) => ComponentChildren;
}

/** Rendered once, because messages do not change. */
class MessageItem extends Component<MessageProps> {
  override shouldComponentUpdate(next: MessageProps): boolean {
    return (Object.keys(next) as (keyof MessageProps)[]).some((name) => next[name] !== this.props[name]);
  }
  override render() {
    return <MessageBody {...this.props} />;
  }
}

function MessageBody({ message, session, run, aimed, inherited, actions }: MessageProps) {
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
          {typeof finish === "string" && !whole_ends.has(finish) && <Badge tone="wait" title="reason for the end of the response">{spoken(finish)}</Badge>}
          {message.run && message.run !== run && <small><Id of={message.run} /></small>}
          {inherited && <Badge title={`message of ${message.session}, before the fork`}>shared</Badge>}
          <span class="grow" />
          {actions?.(message)}
        </div>
        {parts.map((part, i) => (
          <div key={i} class={`part ${part.kind}`}>
            {part.head && <div class="dim">{part.head}</div>}
            <LongText text={part.text} code={part.kind !== "text"} />
          </div>
        ))}
        {parts.length === 0 && <p class="dim">No content stored: the agent's capture setting stores usage only.</p>}
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

/** Finish reasons of a complete response. */
const whole_ends = new Set(["", "stop", "end_turn", "tool_calls", "tool_use", "STOP", "completed", "stop_sequence"]);
