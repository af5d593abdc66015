// Long text from agents and models: without control characters, and in pieces that a browser can lay out.

const folded_chars = 1_600;
const folded_lines = 24;
const piece_chars = 10_000;

const escapes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** Removes terminal sequences. Other control characters become visible symbols, so that they cannot hide text. */
export function plain(text: string): string {
  return text
    .replace(escapes, "")
    .replace(/\r\n?/g, "\n")
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)));
}

/** Length of the text that is shown before "show all". */
export function folded_at(text: string): number {
  let line = -1;
  for (let lines = 0; lines < folded_lines; lines += 1) {
    line = text.indexOf("\n", line + 1);
    if (line === -1 || line > folded_chars) break;
  }
  const at = line === -1 || line > folded_chars ? folded_chars : line;
  // A slightly longer text is shown whole, because the button would take as much room.
  return at + 200 >= text.length ? text.length : at;
}

/** Cuts text without splitting a surrogate pair. */
export function cut(text: string, at: number): string {
  const half = text.charCodeAt(at - 1);
  return text.slice(0, half >= 0xd800 && half < 0xdc00 ? at - 1 : at);
}

/** Pieces with content-visibility. They end at line ends where possible. */
export function pieces_of(text: string): string[] {
  const pieces: string[] = [];
  for (let rest = text; rest !== ""; ) {
    const line = rest.length > piece_chars ? rest.lastIndexOf("\n", piece_chars) : -1;
    const piece = line > 0 ? rest.slice(0, line) : cut(rest, piece_chars);
    pieces.push(piece);
    rest = rest.slice(line > 0 ? line + 1 : piece.length);
  }
  return pieces;
}
