// Live data: the response of an API path, read again after events.
//
//   (1) All components that show a path share one read. It is repeated after an event that changes the data, and after
//       each gap in the feed.
//   (2) A path is read at most once per `pause_ms`, and never twice at the same time.
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, Problem } from "./api";
import { feed, type FeedEvent } from "./feed";

/** Events that change the data: their types, or a predicate. */
export type Changes = readonly string[] | ((event: FeedEvent) => boolean);

export interface Live<T> {
  data: T | undefined;
  problem: Problem | undefined;
  reload: () => void;
}

const pause_ms = 400;
const kept_ms = 30_000; // Data of a closed screen is kept this long.

class Source {
  data: unknown;
  problem: Problem | undefined;
  readonly listeners = new Set<() => void>();
  private stale = true;
  private reading = false;
  private timer = 0;
  private read_at = -Infinity;

  constructor(readonly path: string, public changes: Changes) {}

  is_changed_by(event: FeedEvent): boolean {
    return typeof this.changes === "function" ? this.changes(event) : this.changes.includes(event.type);
  }

  refresh(): void {
    this.stale = true;
    if (this.listeners.size === 0 || this.reading || this.timer !== 0) return;
    const wait = Math.max(0, this.read_at + pause_ms - performance.now());
    this.timer = window.setTimeout(() => void this.read(), wait);
  }

  refresh_if_stale(): void {
    if (this.stale) this.refresh();
  }

  private async read(): Promise<void> {
    this.timer = 0;
    this.reading = true;
    this.stale = false;
    try {
      this.data = await get(this.path);
      this.problem = undefined;
    } catch (error) {
      this.problem = error instanceof Problem ? error : new Problem(-1, "unknown", String(error));
      this.stale = true; // Read again at the next event or when the connection is back.
    }
    this.reading = false;
    this.read_at = performance.now();
    for (const listener of this.listeners) listener();
    if (this.stale && this.problem === undefined) this.refresh();
  }
}

const sources = new Map<string, Source>();
feed.on_event((event) => {
  for (const source of sources.values()) if (source.is_changed_by(event)) source.refresh();
});
feed.on_resync(() => {
  for (const source of sources.values()) source.refresh();
});

/** The source that all components share for a path. */
export function source_of(path: string, changes: Changes): Source {
  let source = sources.get(path);
  if (!source) sources.set(path, (source = new Source(path, changes)));
  source.changes = changes;
  return source;
}

/** Reads all paths with these prefixes again, after a change by the user. */
export function refresh(...prefixes: string[]): void {
  for (const source of sources.values()) {
    if (prefixes.some((prefix) => source.path.startsWith(prefix))) source.refresh();
  }
}

/** The data at `path`, or none if `path` is null. `changes` must be the same object at each render. */
export function useLive<T>(path: string | null, changes: Changes): Live<T> {
  const source = useMemo(() => (path === null ? undefined : source_of(path, changes)), [path]);
  const [, draw] = useState(0);
  useEffect(() => {
    if (!source) return;
    const listener = () => draw((n) => n + 1);
    source.listeners.add(listener);
    source.refresh_if_stale();
    return () => {
      source.listeners.delete(listener);
      setTimeout(() => {
        if (source.listeners.size === 0 && sources.get(source.path) === source) sources.delete(source.path);
      }, kept_ms);
    };
  }, [source]);
  return {
    data: source?.data as T | undefined,
    problem: source?.problem,
    reload: () => source?.refresh(),
  };
}

/** Calls `listener` with each event while the component is mounted. */
export function useFeed(listener: (event: FeedEvent) => void): void {
  useEffect(() => feed.on_event(listener), [listener]);
}

export function useConnection(): string {
  const [connection, set] = useState(feed.connection);
  useEffect(() => feed.on_change(() => set(feed.connection)), []);
  return connection;
}
