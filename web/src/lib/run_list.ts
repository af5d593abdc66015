// RunList: runs that match a filter, newest first, loaded page by page.
//
//   (1) It keeps all ids that it has read, in order, but only the runs near the view.
//   (2) One read at a time: first missing runs in view, then pages below, then new runs and changed ones.
//   (3) Events mark runs as stale. Stale runs in view are read again as one page of the list. Other stale runs are read
//       when they come into view.
import { get, Problem, query } from "./api";
import type { FeedEvent } from "./feed";
import type { Page, Run } from "./types";

export interface RunFilter {
  status: string; // As in the API: "queued,running".
  agent: string;
  schedule: string;
  name: string;
}

const page = 500;
const first_page = 200;
const margin = 100; // Rows read above and below the view.
const ahead = 1_000; // Ids known below the view.
const kept_max = 6_000;
const pause_ms = 400;
const gap_pages_max = 5;
const candidates_max = 50;

export class RunList {
  ids: string[] = [];
  complete = false; // No run is below the last one.
  started = false;
  problem: Problem | undefined;
  private runs = new Map<string, Run>();
  private stale = new Set<string>();
  private candidates = new Set<string>(); // Changed runs that may match the filter now.
  private head_stale = true;
  private first = 0;
  private last = 0;
  private reading = false;
  private timer = 0;
  private read_at = -Infinity;
  private closed = false;

  constructor(readonly filter: RunFilter, private readonly changed: () => void) {}

  at(index: number): Run | undefined {
    return this.runs.get(this.ids[index]!);
  }

  of(id: string): Run | undefined {
    return this.runs.get(id);
  }

  index_of(id: string): number {
    const index = this.position_of(id);
    return this.ids[index] === id ? index : -1;
  }

  /** Sets the rows in view. */
  show(first: number, last: number): void {
    this.first = first;
    this.last = last;
    if (this.problem === undefined) this.read_on();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  /** Marks all runs as stale, after a gap in the feed. */
  resync(): void {
    this.stale = new Set(this.ids);
    this.head_stale = true;
    this.problem = undefined;
    this.read_later();
  }

  on_event(event: FeedEvent): void {
    const id = event.data.run;
    if (typeof id !== "string" || !run_events.has(event.type)) return;
    if (this.index_of(id) >= 0) this.stale.add(id);
    else if (event.type === "charged" || event.type === "run_stop_requested" || !this.may_match(event)) return;
    else if (this.ids.length < margin || id > this.ids[margin - 1]!) this.head_stale = true; // It belongs near the top.
    else if ((this.complete || id > this.ids.at(-1)!) && this.candidates.size < candidates_max) this.candidates.add(id);
    else return;
    this.read_later();
  }

  /** Reads after a pause, so that many events cause few reads. */
  private read_later(): void {
    if (this.timer !== 0 || this.closed) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.read_on();
    }, Math.max(0, this.read_at + pause_ms - performance.now()));
  }

  private read_on(): void {
    if (this.reading || this.closed) return;
    const work = this.next_read();
    if (!work) return;
    this.reading = true;
    work().then(() => (this.problem = undefined), (error: unknown) => {
      this.problem = error instanceof Problem ? error : new Problem(-1, "unknown", String(error));
    }).finally(() => {
      this.reading = false;
      this.read_at = performance.now();
      if (this.closed) return;
      this.trim();
      this.changed(); // The listener calls show(), which starts the next read.
    });
  }

  private next_read(): (() => Promise<unknown>) | undefined {
    if (!this.started) return () => this.read_head(first_page);
    const view = this.ids.slice(this.first, this.last);
    if (view.some((id) => !this.runs.has(id))) return () => this.read_view();
    // Changed runs are read only after the pause.
    const rested = performance.now() >= this.read_at + pause_ms;
    if (!this.complete && this.last + ahead > this.ids.length) return () => this.read_page(this.ids.at(-1), page);
    if (this.head_stale || this.candidates.size > 0 || view.some((id) => this.stale.has(id))) {
      if (!rested) return void this.read_later();
      if (this.head_stale) return () => this.read_head(margin);
      if (view.some((id) => this.stale.has(id))) return () => this.read_view();
      return () => this.read_candidate();
    }
    return undefined;
  }

  private path(after: string | undefined, limit: number): string {
    return query("v1/runs", { ...this.filter, after, limit });
  }

  private async read_page(after: string | undefined, limit: number): Promise<Page<Run>> {
    const before = this.stale;
    this.stale = new Set(); // Later events may be newer than the response.
    const response = await get<Page<Run>>(this.path(after, limit)).catch((error: unknown) => {
      for (const id of before) this.stale.add(id);
      throw error;
    });
    const read = this.merge(after, response);
    for (const id of before) if (!read.has(id)) this.stale.add(id);
    return response;
  }

  private async read_head(limit: number): Promise<void> {
    this.head_stale = false;
    const newest = this.ids[0];
    let response = await this.read_page(undefined, limit);
    this.started = true;
    // More runs are new than a page has: read on down to the known ones, or drop those.
    for (let pages = 0; newest !== undefined && response.next !== null && response.items.at(-1)!.id > newest; pages += 1) {
      if (pages === gap_pages_max) {
        this.cut_below(response.items.at(-1)!.id);
        return;
      }
      response = await this.read_page(response.items.at(-1)!.id, page);
    }
  }

  private async read_view(): Promise<void> {
    const from = Math.max(0, this.first - margin);
    await this.read_page(from > 0 ? this.ids[from - 1] : undefined, this.last - from + margin);
  }

  private async read_candidate(): Promise<void> {
    const [id] = this.candidates;
    this.candidates.delete(id!);
    const run = await get<Run>(`v1/runs/${id}`);
    if (!this.matches(run) || this.index_of(run.id) >= 0) return;
    const position = this.position_of(run.id);
    this.ids = [...this.ids.slice(0, position), run.id, ...this.ids.slice(position)];
    this.runs.set(run.id, run);
  }

  /** Replaces the ids between `after` and the end of the page by those of the page. Returns the replaced ids. */
  private merge(after: string | undefined, { items, next }: Page<Run>): Set<string> {
    const begin = after === undefined ? 0 : this.position_after(after);
    const end = next === null ? this.ids.length : this.position_after(items.at(-1)!.id);
    const read = new Set(this.ids.slice(begin, end));
    for (const id of read) this.runs.delete(id);
    this.ids = [...this.ids.slice(0, begin), ...items.map((run) => run.id), ...this.ids.slice(end)];
    for (const run of items) this.runs.set(run.id, run);
    if (next === null) this.complete = true;
    return read;
  }

  private cut_below(id: string): void {
    this.ids = this.ids.slice(0, this.position_after(id));
    this.complete = false;
  }

  private trim(): void {
    if (this.runs.size <= kept_max) return;
    const near = new Set(this.ids.slice(Math.max(0, this.first - kept_max / 4), this.last + kept_max / 4));
    for (const id of this.runs.keys()) if (!near.has(id)) this.runs.delete(id);
  }

  /** Index of an id, or where it would be. Ids sort by time as text. */
  private position_of(id: string): number {
    let low = 0;
    let high = this.ids.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ids[middle]! > id) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private position_after(id: string): number {
    const position = this.position_of(id);
    return this.ids[position] === id ? position + 1 : position;
  }

  private may_match({ data }: FeedEvent): boolean {
    const { status, agent } = this.filter;
    return (!agent || data.agent === agent) && (!status || status.split(",").includes(String(data.state)));
  }

  private matches(run: Run): boolean {
    const { status, agent, schedule, name } = this.filter;
    return (!status || status.split(",").includes(run.status)) && (!agent || run.agent === agent)
      && (!schedule || run.schedule === schedule) && (!name || run.name === name);
  }
}

const run_events = new Set(["run_changed", "run_ended", "run_stop_requested", "charged"]);
