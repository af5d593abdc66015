// Lists with a "Show more" button, and a note where the API key has no read right.
import { useRef, useState } from "preact/hooks";
import type { Problem } from "../lib/api";
import { type Changes, type Live, useLive } from "../lib/live";
import type { Page } from "../lib/types";
import { count } from "../lib/words";
import { ErrorMessage } from "./parts";

const limit_max = 1_000; // Maximum of the API.

export interface List<T> extends Live<Page<T>> {
  more: (() => void) | undefined;
}

/** The previous data while the next is loading, so that the layout does not jump. */
export function useKept<T>(data: T | undefined, of: string): T | undefined {
  const kept = useRef<{ of: string; data: T }>();
  if (data !== undefined) kept.current = { of, data };
  return kept.current?.of === of ? kept.current.data : undefined;
}

/** The first rows at a path; more() asks for more. `changes` must be the same object at each render. */
export function useList<T>(path: string, changes: Changes, step = 100): List<T> {
  const [asked, ask] = useState({ path, limit: step });
  const limit = asked.path === path ? asked.limit : step;
  const live = useLive<Page<T>>(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}`, changes);
  const data = useKept(live.data, path);
  const more = data?.next && limit < limit_max ? () => ask({ path, limit: Math.min(limit_max, limit * 3) }) : undefined;
  return { ...live, data, more };
}

/** Footer of a list that has more rows. */
export function More<T>({ of, command }: { of: List<T>; command: string }) {
  if (!of.data?.next) return null;
  return of.more
    ? <div><button type="button" onClick={of.more}>Show more</button></div>
    : <p class="dim">Only the first {count(of.data.items.length)} are shown. List all with: <code>{command}</code></p>;
}

/** A missing read right is a note, any other error an error message. */
export function ReadError({ of }: { of: Problem | undefined }) {
  return of?.status === 403 ? <p class="dim">Not shown: {of.detail}.</p> : <ErrorMessage of={of} />;
}
