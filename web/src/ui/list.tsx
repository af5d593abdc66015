// Lists that grow on demand, and quiet words where a key may not look.
import { useRef, useState } from "preact/hooks";
import type { Problem } from "../lib/api";
import { type Changes, type Live, useLive } from "../lib/live";
import type { Page } from "../lib/types";
import { count } from "../lib/words";
import { Trouble } from "./parts";

const limit_max = 1_000; // The API gives no more at a time.

export interface List<T> extends Live<Page<T>> {
  more: (() => void) | undefined;
}

/** The last that was there, while what comes in its place is still being read: nothing jumps. */
export function useKept<T>(data: T | undefined, of: string): T | undefined {
  const kept = useRef<{ of: string; data: T }>();
  if (data !== undefined) kept.current = { of, data };
  return kept.current?.of === of ? kept.current.data : undefined;
}

/** The first rows at a path, and more of them when somebody asks. `changes` must not be made anew at each drawing. */
export function useList<T>(path: string, changes: Changes, step = 100): List<T> {
  const [asked, ask] = useState({ path, limit: step });
  const limit = asked.path === path ? asked.limit : step;
  const live = useLive<Page<T>>(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}`, changes);
  const data = useKept(live.data, path);
  const more = data?.next && limit < limit_max ? () => ask({ path, limit: Math.min(limit_max, limit * 3) }) : undefined;
  return { ...live, data, more };
}

/** Below a list: that there is more of it, and how to see it. */
export function More<T>({ of, command }: { of: List<T>; command: string }) {
  if (!of.data?.next) return null;
  return of.more
    ? <div><button type="button" onClick={of.more}>Show more</button></div>
    : <p class="dim">These are {count(of.data.items.length)}. <code>{command}</code> lists them all.</p>;
}

/** What a key may not read is no trouble; everything else is. */
export function Unread({ of }: { of: Problem | undefined }) {
  return of?.status === 403 ? <p class="dim">Not shown: {of.detail}.</p> : <Trouble of={of} />;
}
