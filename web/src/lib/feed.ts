// Feed: delivers each event of the server once and in order.
//
//   (1) All data on the dashboard comes from reads. Events only say which data to read again. After a gap in the events,
//       listeners of on_resync() read all data again, so a missed event leaves no stale data.
//   (2) A connection that is silent for longer than the server's heartbeat is closed and opened again.
//   (3) A hidden page closes its connection after a minute, because browsers allow few connections per server.
import { login_header } from "./login";

export interface FeedEvent {
  seq: number;
  at: string;
  type: string;
  data: Record<string, unknown>;
}

/** `no_feed`: the API key does not have the right to follow events, so data is as of its read. */
export type Connection = "connecting" | "live" | "reconnecting" | "logged_out" | "no_feed";

const silence_max_ms = 40_000; // The server sends a heartbeat every 15 s.
const hidden_max_ms = 60_000;
const replay_max = 2_000; // Further behind than this, reading all data again is faster.

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
    let closing: number | undefined;
    const on_visibility = () => {
      clearTimeout(closing);
      if (document.hidden) closing = window.setTimeout(() => this.abort?.abort(), hidden_max_ms);
      else this.wake?.();
    };
    document.addEventListener("visibilitychange", on_visibility);
    on_visibility(); // The page may have been opened in a background tab.
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

  private set_connection(connection: Connection): void {
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
        if (error instanceof Refused) return this.set_connection(error.status === 401 ? "logged_out" : "no_feed");
      }
      if (this.connection === "live") failures = 0;
      this.set_connection("reconnecting");
      await this.pause(Math.min(250 * 2 ** failures, 5_000) * (0.75 + Math.random() / 2));
    }
  }

  /** Waits for `ms`, or until the page is shown or the network is back. */
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
    const reset_timer = () => {
      clearTimeout(silence);
      silence = window.setTimeout(() => abort.abort(), silence_max_ms);
    };
    reset_timer();
    try {
      const resumed = this.cursor >= 0;
      const head = await this.head(abort.signal);
      // A head behind the cursor means another store, so the old cursor has no meaning.
      if (!resumed || head < this.cursor || head - this.cursor > replay_max) {
        this.cursor = head;
      }
      const response = await fetch(`v1/events?after=${this.cursor}`, {
        headers: { accept: "text/event-stream", ...login_header() },
        signal: abort.signal,
      });
      check(response);
      if (!response.body) throw new Error("no feed");
      this.set_connection("live");
      // Data without events of its own may have changed during the gap.
      if (resumed) this.resync();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        reset_timer();
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          if (line.startsWith("data: ")) this.deliver(JSON.parse(line.slice(6)) as FeedEvent);
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

  private deliver(event: FeedEvent): void {
    if (event.seq <= this.cursor) return;
    this.cursor = event.seq;
    for (const listener of this.events) listener(event);
  }
}

class Refused extends Error {
  constructor(readonly status: number) {
    super(`the server refused the feed: ${status}`);
  }
}

function check(response: Response): void {
  if (response.status === 401 || response.status === 403) throw new Refused(response.status);
  if (!response.ok) throw new Error(`no feed: ${response.status}`);
}

export const feed = new Feed();
