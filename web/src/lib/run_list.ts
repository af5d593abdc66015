// A list of runs, the newest first, of which the page holds what it needs.
//
//   (1) All ids that were read are kept, in order; of the runs themselves only those about what is in view.
//   (2) One read at a time. What is in view comes first, then what is new, then what comes next below.
//   (3) Events say which runs changed. Those in view are read again as one page of the list; the others are only
//       remembered, and read when they come into view.
import { get, Problem, query } from "./api";
import type { FeedEvent } from "./feed";
import type { Page, Run } from "./types";

export interface RunFilter {
  status: string; // As the API takes it: "queued,running".
  agent: string;
  schedule: string;
  name: string;
}

const page = 500;
const first_page = 200;
const around = 100; // So many are read beside those in view.
const ahead = 1_000; // So many are known below what is in view.
const kept_max = 6_000;
const pause_ms = 400;
const gap_pages_max = 5;
const strays_max = 50;

export class RunList {
  ids: string[] = [];
  complete = false; // Nothing is below the last one.
  started = false;
  problem: Problem | undefined;
  private runs = new Map<string, Run>();
  private stale = new Set<string>();
  private strays = new Set<string>(); // Changed, and perhaps of this list now.
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
    const index = this.place_of(id);
    return this.ids[index] === id ? index : -1;
  }

  /** What is in view. */
  show(first: number, last: number): void {
    this.first = first;
    this.last = last;
    if (this.problem === undefined) this.read_on();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  /** Nothing that is here can be trusted to be the newest. */
  resync(): void {
    this.stale = new Set(this.ids);
    this.head_stale = true;
    this.problem = undefined;
    this.soon();
  }

  hear(event: FeedEvent): void {
    const id = event.data.run;
    if (typeof id !== "string" || !heard.has(event.type)) return;
    if (this.index_of(id) >= 0) this.stale.add(id);
    else if (event.type === "charged" || event.type === "run_stop_requested" || !this.may_match(event)) return;
    else if (this.ids.length < around || id > this.ids[around - 1]!) this.head_stale = true; // It is among the first.
    else if ((this.complete || id > this.ids.at(-1)!) && this.strays.size < strays_max) this.strays.add(id);
    else return;
    this.soon();
  }

  /** Reads for events are never made more often than somebody can look. */
  private soon(): void {
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
      this.changed(); // Who draws says what is in view, and so what to read next.
    });
  }

  private next_read(): (() => Promise<unknown>) | undefined {
    if (!this.started) return () => this.read_head(first_page);
    const view = this.ids.slice(this.first, this.last);
    if (view.some((id) => !this.runs.has(id))) return () => this.read_view();
    // What only changed can wait until the pause is over.
    const rested = performance.now() >= this.read_at + pause_ms;
    if (!this.complete && this.last + ahead > this.ids.length) return () => this.read_page(this.ids.at(-1), page);
    if (this.head_stale || this.strays.size > 0 || view.some((id) => this.stale.has(id))) {
      if (!rested) return void this.soon();
      if (this.head_stale) return () => this.read_head(around);
      if (view.some((id) => this.stale.has(id))) return () => this.read_view();
      return () => this.read_stray();
    }
    return undefined;
  }

  private path(after: string | undefined, limit: number): string {
    return query("v1/runs", { ...this.filter, after, limit });
  }

  private async read_page(after: string | undefined, limit: number): Promise<Page<Run>> {
    const before = this.stale;
    this.stale = new Set(); // What is heard of from here on may be newer than the answer.
    const answer = await get<Page<Run>>(this.path(after, limit)).catch((error: unknown) => {
      for (const id of before) this.stale.add(id);
      throw error;
    });
    const read = this.merge(after, answer);
    for (const id of before) if (!read.has(id)) this.stale.add(id);
    return answer;
  }

  private async read_head(limit: number): Promise<void> {
    this.head_stale = false;
    const newest = this.ids[0];
    let answer = await this.read_page(undefined, limit);
    this.started = true;
    // More came than one page has: all of them, down to what was here before, or else from the beginning.
    for (let pages = 0; newest !== undefined && answer.next !== null && answer.items.at(-1)!.id > newest; pages += 1) {
      if (pages === gap_pages_max) {
        this.cut_below(answer.items.at(-1)!.id);
        return;
      }
      answer = await this.read_page(answer.items.at(-1)!.id, page);
    }
  }

  private async read_view(): Promise<void> {
    const from = Math.max(0, this.first - around);
    await this.read_page(from > 0 ? this.ids[from - 1] : undefined, this.last - from + around);
  }

  private async read_stray(): Promise<void> {
    const [id] = this.strays;
    this.strays.delete(id!);
    const run = await get<Run>(`v1/runs/${id}`);
    if (!this.matches(run) || this.index_of(run.id) >= 0) return;
    const place = this.place_of(run.id);
    this.ids = [...this.ids.slice(0, place), run.id, ...this.ids.slice(place)];
    this.runs.set(run.id, run);
  }

  /** Puts a page in its place: between `after` and its last one the list is now exactly what the page says. Which ids that was. */
  private merge(after: string | undefined, { items, next }: Page<Run>): Set<string> {
    const begin = after === undefined ? 0 : this.place_behind(after);
    const end = next === null ? this.ids.length : this.place_behind(items.at(-1)!.id);
    const read = new Set(this.ids.slice(begin, end));
    for (const id of read) this.runs.delete(id);
    this.ids = [...this.ids.slice(0, begin), ...items.map((run) => run.id), ...this.ids.slice(end)];
    for (const run of items) this.runs.set(run.id, run);
    if (next === null) this.complete = true;
    return read;
  }

  private cut_below(id: string): void {
    this.ids = this.ids.slice(0, this.place_behind(id));
    this.complete = false;
  }

  private trim(): void {
    if (this.runs.size <= kept_max) return;
    const near = new Set(this.ids.slice(Math.max(0, this.first - kept_max / 4), this.last + kept_max / 4));
    for (const id of this.runs.keys()) if (!near.has(id)) this.runs.delete(id);
  }

  /** Where an id is, or would be. Ids are made in the order of time, and compare as text. */
  private place_of(id: string): number {
    let low = 0;
    let high = this.ids.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ids[middle]! > id) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private place_behind(id: string): number {
    const place = this.place_of(id);
    return this.ids[place] === id ? place + 1 : place;
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

const heard = new Set(["run_changed", "run_ended", "run_stop_requested", "charged"]);
