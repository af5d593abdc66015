// Lines of a log, built from the pieces that the API returns.
import { type Look, overwritten, pieces_of, plain } from "./ansi";

export interface Line {
  text: string;
  look: Look; // Style at its begin.
  bytes: number;
  gap?: number; // Size of a missing piece, for which this line stands.
}

/** Lines that are rendered together. A full block never changes. */
export interface Block {
  id: number;
  lines: readonly Line[];
}

let blocks_made = 0;

const block_lines = 100;
const blocks_max = 40;
const line_bytes_max = 2 << 20; // Longer lines are split.
const styled_bytes_max = 64 << 10; // Bytes of a line that are searched for style changes.
const new_line = 0x0a;
const escape = 0x1b;

export class LogLines {
  blocks: Block[] = [];
  begin = 0; // Offset of the first line in the log.
  next: number | undefined; // Offset to read next.
  private rest: Uint8Array = new Uint8Array();
  private look = plain;
  private decoder = new TextDecoder();

  /** Appends the bytes at `offset`. If `offset` is larger than `next`, the server dropped a piece, and a gap stands for it. */
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
    // Lines that trim() would drop are not built, because a program can write half a million in a moment.
    const over = ends.length - blocks_max * block_lines;
    if (over > 0) {
      this.drop(this.blocks.length);
      from = ends[over - 1]! + 1;
      this.begin += from;
      this.skip_lines(together.subarray(0, from));
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

  /** Prepends earlier bytes. Of very many lines only the last are kept. */
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

  /** The last line, if it has no newline. */
  get unended(): Line | undefined {
    return this.rest.length > 0 ? this.shown(this.rest, 0).line : undefined;
  }

  /** Drops the oldest lines if there are too many. They can be read again. */
  trim(): void {
    const over = this.blocks.length - blocks_max;
    if (over > 0) this.drop(over);
  }

  private drop(blocks: number): void {
    for (const block of this.blocks.slice(0, blocks)) for (const line of block.lines) this.begin += line.bytes;
    this.blocks = this.blocks.slice(blocks);
  }

  /** Applies the style changes of lines that are not kept. */
  private skip_lines(lines: Uint8Array): void {
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
    const last = text.includes("\x1b") ? pieces_of(text.slice(0, styled_bytes_max), this.look).last : this.look;
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

/** Offset of the first whole line in a piece that may begin inside a line; 0 if that would drop most of the piece. */
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
