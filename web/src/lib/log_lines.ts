// The log of a run as lines, kept by the pieces in which the server hands it out.
import { type Look, overwritten, pieces_of, plain } from "./ansi";

export interface Line {
  text: string;
  look: Look; // As which it begins.
  bytes: number;
  gap?: number; // Bytes that were not kept: the line stands for them.
}

/** Lines that are drawn together. One that is full is never changed again. */
export interface Block {
  id: number;
  lines: readonly Line[];
}

let blocks_made = 0;

const block_lines = 100;
const blocks_max = 40;
const line_bytes_max = 2 << 20; // A line without an end is cut here.
const looked_into_max = 64 << 10; // Of a line, for what changes the look of the next.
const new_line = 0x0a;
const escape = 0x1b;

export class LogLines {
  blocks: Block[] = [];
  begin = 0; // Where the first line begins, in bytes from the beginning of the log.
  next: number | undefined; // Where to read on.
  private rest: Uint8Array = new Uint8Array();
  private look = plain;
  private decoder = new TextDecoder();

  /** What is at `offset`, behind everything that is here. A log that became too long has a hole in it, over which reading goes on. */
  add(offset: number, bytes: Uint8Array): void {
    const end = offset + bytes.length;
    if (this.next === undefined) {
      const cut = offset > 0 ? first_whole(bytes) : 0;
      this.begin = offset + cut;
      bytes = bytes.subarray(cut);
    } else if (offset > this.next) {
      this.flush();
      this.append([{ text: "", look: plain, bytes: offset - this.next, gap: offset - this.next }]);
    }
    const together = joined(this.rest, bytes);
    const ends: number[] = [];
    for (let at = together.indexOf(new_line); at >= 0; at = together.indexOf(new_line, at + 1)) ends.push(at);
    let from = 0;
    // What would be let go of at once is not made into lines: a program can write half a million of them in a moment.
    const over = ends.length - blocks_max * block_lines;
    if (over > 0) {
      this.let_go(this.blocks.length);
      from = ends[over - 1]! + 1;
      this.begin += from;
      this.pass_over(together.subarray(0, from));
    }
    const lines: Line[] = [];
    for (const end of over > 0 ? ends.slice(over) : ends) {
      lines.push(this.line_of(together.subarray(from, end), 1));
      from = end + 1;
    }
    this.append(lines);
    this.rest = together.slice(from);
    if (this.rest.length > line_bytes_max) this.flush();
    this.next = end;
  }

  /** What is before everything that is here: of very many lines, the last. */
  add_before(offset: number, bytes: Uint8Array): void {
    const gap = this.begin - offset - bytes.length;
    const cut = offset > 0 ? first_whole(bytes) : 0;
    const earlier = new LogLines();
    earlier.begin = earlier.next = offset + cut;
    earlier.add(offset + cut, bytes.subarray(cut));
    earlier.flush();
    if (gap > 0) earlier.append([{ text: "", look: plain, bytes: gap, gap }]);
    this.blocks = [...earlier.blocks, ...this.blocks];
    this.begin = earlier.begin;
  }

  /** The line that has no end yet, or never had one. */
  get unended(): Line | undefined {
    return this.rest.length > 0 ? this.shown(this.rest, 0).line : undefined;
  }

  /** Lets go of the oldest lines when there are too many. They can be read again. */
  trim(): void {
    const over = this.blocks.length - blocks_max;
    if (over > 0) this.let_go(over);
  }

  private let_go(blocks: number): void {
    for (const block of this.blocks.slice(0, blocks)) for (const line of block.lines) this.begin += line.bytes;
    this.blocks = this.blocks.slice(blocks);
  }

  /** Lines that are not kept: only how they change the look of the next. */
  private pass_over(lines: Uint8Array): void {
    for (let at = lines.indexOf(escape); at >= 0;) {
      const begin = lines.lastIndexOf(new_line, at) + 1;
      const end = lines.indexOf(new_line, at);
      this.line_of(lines.subarray(begin, end), 1);
      at = lines.indexOf(escape, end);
    }
  }

  private flush(): void {
    if (this.rest.length > 0) this.append([this.line_of(this.rest, 0)]);
    this.rest = new Uint8Array();
  }

  private line_of(bytes: Uint8Array, ending: number): Line {
    const { line, last } = this.shown(bytes, ending);
    this.look = last;
    return line;
  }

  private shown(bytes: Uint8Array, ending: number): { line: Line; last: Look } {
    const text = overwritten(this.decoder.decode(bytes));
    const line = { text, look: this.look, bytes: bytes.length + ending };
    const last = text.includes("\x1b") ? pieces_of(text.slice(0, looked_into_max), this.look).last : this.look;
    return { line, last };
  }

  private append(lines: readonly Line[]): void {
    if (lines.length === 0) return;
    const blocks = [...this.blocks];
    const block = blocks.at(-1);
    let from = 0;
    if (block && block.lines.length < block_lines) {
      from = block_lines - block.lines.length;
      blocks[blocks.length - 1] = { id: block.id, lines: [...block.lines, ...lines.slice(0, from)] };
    }
    for (; from < lines.length; from += block_lines) {
      blocks.push({ id: (blocks_made += 1), lines: lines.slice(from, from + block_lines) });
    }
    this.blocks = blocks;
  }
}

/** A piece begins somewhere: its first line is the first whole one, unless there is hardly one. */
function first_whole(bytes: Uint8Array): number {
  const behind = bytes.indexOf(new_line) + 1;
  return behind <= bytes.length / 2 ? behind : 0;
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  if (first.length === 0) return second;
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
