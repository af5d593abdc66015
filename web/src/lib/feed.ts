// The feed: every event, once and in order, for as long as the page is open.
//
//   (1) What is shown comes from reads; events only say what to read again. So an event that is not heard cannot leave
//       anything wrong on the page: whoever comes back after a gap is told `resynced` and reads everything again.
//   (2) A connection that is silent for longer than the server's heartbeat is dead, whatever the network says.
//   (3) A page that nobody looks at lets its connection go after a while: browsers have few for each server.
import { login_header } from "./login";

export interface FeedEvent {
  seq: number;
  at: string;
  type: string;
  data: Record<string, unknown>;
}

/** `unfollowed`: the key may not follow the feed; what is shown is as of when it was read. */
export type Connection = "connecting" | "live" | "reconnecting" | "logged_out" | "unfollowed";

const silence_max_ms = 40_000; // The server says something at least every 15 s.
const hidden_max_ms = 60_000;
const replay_max = 2_000; // Further behind than this, it is quicker to read everything again.

type EventListener = (event: FeedEvent) => void;

class Feed {
  connection: Connection = "connecting";
  private cursor = -1;
  private events = new Set<EventListener>();
  private changes = new Set<() => void>();
  private resyncs = new Set<() => void>();
  private abort: AbortController | undefined;
  private wake: (() => void) | undefined;
  private started = false;

  start(): void {
    if (this.started) return;
    this.started = true;
    let let_go: number | undefined;
    const look = () => {
      clearTimeout(let_go);
      if (document.hidden) let_go = window.setTimeout(() => this.abort?.abort(), hidden_max_ms);
      else this.wake?.();
    };
    document.addEventListener("visibilitychange", look);
    look(); // It may have been opened behind another.
    window.addEventListener("online", () => this.wake?.());
    void this.follow();
  }

  on_event(listener: EventListener): () => void {
    this.events.add(listener);
    return () => this.events.delete(listener);
  }
  on_change(listener: () => void): () => void {
    this.changes.add(listener);
    return () => this.changes.delete(listener);
  }
  on_resync(listener: () => void): () => void {
    this.resyncs.add(listener);
    return () => this.resyncs.delete(listener);
  }

  private become(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    for (const listener of this.changes) listener();
  }

  private async follow(): Promise<void> {
    for (let failures = 0; ; failures += 1) {
      if (document.hidden && this.cursor >= 0) await this.pause(undefined);
      try {
        await this.connect();
      } catch (error) {
        if (error instanceof Refused) return this.become(error.status === 401 ? "logged_out" : "unfollowed");
      }
      if (this.connection === "live") failures = 0;
      this.become("reconnecting");
      await this.pause(Math.min(250 * 2 ** failures, 5_000) * (0.75 + Math.random() / 2));
    }
  }

  /** Until somebody looks, or the time is over. */
  private pause(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private async connect(): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = window.setTimeout(() => abort.abort(), silence_max_ms);
    };
    heard();
    try {
      const resumed = this.cursor >= 0;
      const head = await this.head(abort.signal);
      // A head behind the cursor is another store: what the page knows is not of this one.
      if (!resumed || head < this.cursor || head - this.cursor > replay_max) {
        this.cursor = head;
      }
      const response = await fetch(`v1/events?after=${this.cursor}`, {
        headers: { accept: "text/event-stream", ...login_header() },
        signal: abort.signal,
      });
      check(response);
      if (!response.body) throw new Error("no feed");
      this.become("live");
      // What has no event of its own may have changed while nobody was listening.
      if (resumed) this.resync();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        heard();
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          if (line.startsWith("data: ")) this.take(JSON.parse(line.slice(6)) as FeedEvent);
        }
      }
    } finally {
      clearTimeout(silence);
      abort.abort();
    }
  }

  private async head(signal: AbortSignal): Promise<number> {
    const response = await fetch("v1/events?limit=1", { headers: { accept: "application/json", ...login_header() }, signal });
    check(response);
    return (await response.json()).head;
  }

  private resync(): void {
    for (const listener of this.resyncs) listener();
  }

  private take(event: FeedEvent): void {
    if (event.seq <= this.cursor) return;
    this.cursor = event.seq;
    for (const listener of this.events) listener(event);
  }
}

class Refused extends Error {
  constructor(readonly status: number) {
    super(`the feed is refused: ${status}`);
  }
}

function check(response: Response): void {
  if (response.status === 401 || response.status === 403) throw new Refused(response.status);
  if (!response.ok) throw new Error(`no feed: ${response.status}`);
}

export const feed = new Feed();
