import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { hide_page, open_page } from "../testing/fake_browser";
import { json, serve } from "../testing/fake_server";
import type { FeedEvent } from "./feed";

/** The server's side of the feed. */
class Store {
  head = 0;
  streams: { after: number; say: (text: string) => void; end: () => void; aborted: () => boolean }[] = [];
  status = 200;
  down = false;
  silent = false;
  readonly server = serve((path, init) => {
    if (this.down) throw new TypeError("no network");
    if (this.silent) return new Promise((_, fail) => init.signal!.addEventListener("abort", () => fail(init.signal!.reason)));
    if (this.status !== 200) return json({}, this.status);
    if (path === "v1/events?limit=1") return json({ head: this.head });
    return this.stream(Number(path.split("=")[1]), init.signal!);
  });

  private stream(after: number, signal: AbortSignal): Response {
    let control!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (made) => void (control = made) });
    signal.addEventListener("abort", () => control.error(signal.reason));
    this.streams.push({
      after,
      say: (text) => control.enqueue(new TextEncoder().encode(text)),
      end: () => control.close(),
      aborted: () => signal.aborted,
    });
    return new Response(body);
  }
}

let store: Store;
let heard: number[];
let resyncs: number;

async function begin() {
  vi.resetModules();
  const { feed } = await import("./feed");
  feed.on_event((event: FeedEvent) => heard.push(event.seq));
  feed.on_resync(() => (resyncs += 1));
  feed.start();
  await settled();
  return feed;
}

/** Lets everything happen that waits for no time to pass. */
const settled = () => vi.advanceTimersByTimeAsync(1);
const event = (seq: number) => `id: ${seq}\ndata: {"seq":${seq},"type":"charged","data":{}}\n\n`;

beforeEach(() => {
  vi.useFakeTimers();
  open_page();
  store = new Store();
  heard = [];
  resyncs = 0;
});

afterEach(() => void vi.useRealTimers());

test("the feed begins at the head, and is live then", async () => {
  store.head = 7;
  const feed = await begin();

  expect(feed.connection).toBe("live");
  expect(store.streams.map((each) => each.after)).toEqual([7]);
  expect(resyncs).toBe(0); // All that is shown is read anyway.
});

test("each event is heard once, in order, however it is cut", async () => {
  await begin();
  store.streams[0]!.say(event(1) + event(2).slice(0, 9));
  await settled();
  store.streams[0]!.say(event(2).slice(9) + event(2) + event(1) + event(3));
  await settled();

  expect(heard).toEqual([1, 2, 3]);
});

test("after a break it goes on behind the last event, and tells of a gap", async () => {
  const feed = await begin();
  store.streams[0]!.say(event(1));
  await settled();
  store.head = 3;
  store.streams[0]!.end();
  await settled();
  expect(feed.connection).toBe("reconnecting");

  await vi.advanceTimersByTimeAsync(1_000);
  expect(feed.connection).toBe("live");
  expect(store.streams[1]!.after).toBe(1);
  expect(resyncs).toBe(1);
});

test("far behind, it begins at the head instead of replaying", async () => {
  await begin();
  store.head = 2_001;
  store.streams[0]!.end();
  await vi.advanceTimersByTimeAsync(1_000);

  expect(store.streams[1]!.after).toBe(2_001);
  expect(resyncs).toBe(1);
});

test("a store whose head is behind is another store, and is followed from its head", async () => {
  store.head = 50;
  await begin();
  store.head = 4;
  store.streams[0]!.end();
  await vi.advanceTimersByTimeAsync(1_000);

  expect(store.streams[1]!.after).toBe(4);
});

test("a connection that says nothing for longer than a heartbeat is given up", async () => {
  const feed = await begin();
  await vi.advanceTimersByTimeAsync(30_000);
  store.streams[0]!.say(": still here\n");
  await vi.advanceTimersByTimeAsync(39_000);
  expect(store.streams).toHaveLength(1);

  await vi.advanceTimersByTimeAsync(3_000);
  expect(store.streams[0]!.aborted()).toBe(true);
  expect(store.streams).toHaveLength(2);
  expect(feed.connection).toBe("live");
});

test("a server that accepts a request and never answers it is given up", async () => {
  store.silent = true;
  const feed = await begin();
  await vi.advanceTimersByTimeAsync(39_000);
  expect(store.server.requests).toHaveLength(1);

  store.silent = false;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(feed.connection).toBe("live");
});

test("while the server is away it tries again, at most every few seconds", async () => {
  store.down = true;
  const feed = await begin();
  await vi.advanceTimersByTimeAsync(60_000);
  const tries = store.server.requests.length;
  expect(tries).toBeGreaterThan(8);
  expect(tries).toBeLessThan(30);

  store.down = false;
  await vi.advanceTimersByTimeAsync(7_000);
  expect(feed.connection).toBe("live");
});

test("a network that is back ends the wait for the next try", async () => {
  const feed = await begin();
  store.down = true;
  store.streams[0]!.end();
  await vi.advanceTimersByTimeAsync(60_000);
  store.down = false;
  window.dispatchEvent(new Event("online"));
  await settled();

  expect(feed.connection).toBe("live");
});

test.each([[401, "logged_out"], [403, "no_feed"]])("a refusal with %i ends it: %s", async (status, connection) => {
  store.status = status;
  const feed = await begin();
  await vi.advanceTimersByTimeAsync(60_000);

  expect(feed.connection).toBe(connection);
  expect(store.server.requests).toHaveLength(1);
});

test("a page that is hidden lets its connection go after a minute, and resumes when it is shown", async () => {
  await begin();
  hide_page(true);
  const beat = setInterval(() => store.streams[0]!.aborted() || store.streams[0]!.say(":\n"), 15_000);
  await vi.advanceTimersByTimeAsync(59_000);
  expect(store.streams[0]!.aborted()).toBe(false);
  await vi.advanceTimersByTimeAsync(120_000);
  clearInterval(beat);
  expect(store.streams[0]!.aborted()).toBe(true);
  expect(store.streams).toHaveLength(1);

  hide_page(false);
  await settled();
  expect(store.streams).toHaveLength(2);
  expect(resyncs).toBe(1);
});

test("a short look away keeps the connection", async () => {
  await begin();
  hide_page(true);
  await vi.advanceTimersByTimeAsync(30_000);
  hide_page(false);
  store.streams[0]!.say(":\n");
  await vi.advanceTimersByTimeAsync(35_000);

  expect(store.streams).toHaveLength(1);
  expect(store.streams[0]!.aborted()).toBe(false);
});
