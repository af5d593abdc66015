// Terminal output as text with styles. Colours and weights are kept. All other control sequences (cursor movements, titles,
// clearing) are dropped. The result is always plain text, never markup.

export interface Look {
  colour: number; // Terminal colour 0 to 15; -1: none.
  bold: boolean;
  faint: boolean;
  italic: boolean;
  underlined: boolean;
}

export interface Piece {
  text: string;
  look: Look;
}

export const plain: Look = { colour: -1, bold: false, faint: false, italic: false, underlined: false };

// Colours and weights (group 1), other control sequences, titles up to their terminator, and control characters.
const codes = /\x1b\[([\d;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** The styled pieces of one line, and the style at its end, with which the next line begins. */
export function pieces_of(line: string, first: Look): { pieces: Piece[]; last: Look } {
  const pieces: Piece[] = [];
  let look = first;
  let from = 0;
  const add = (text: string) => text && pieces.push({ text, look });
  for (const match of line.matchAll(codes)) {
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[1] !== undefined) look = changed(look, match[1]);
  }
  add(line.slice(from));
  return { pieces, last: look };
}

/** A line without the text that a carriage return would overwrite. */
export function overwritten(line: string): string {
  const end = line.endsWith("\r") ? line.length - 1 : line.length;
  return line.slice(line.lastIndexOf("\r", end - 1) + 1, end);
}

export function class_of(look: Look): string {
  return [
    look.colour >= 0 && `c${look.colour}`,
    look.bold && "bold",
    look.faint && "faint",
    look.italic && "italic",
    look.underlined && "underlined",
  ].filter(Boolean).join(" ");
}

function changed(look: Look, codes_text: string): Look {
  const next = { ...look };
  const numbers = codes_text.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i += 1) {
    const code = numbers[i]!;
    if (code === 0) Object.assign(next, plain);
    else if (code === 1) next.bold = true;
    else if (code === 2) next.faint = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underlined = true;
    else if (code === 22) next.bold = next.faint = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underlined = false;
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code >= 90 && code <= 97) next.colour = code - 82;
    else if (code === 39) next.colour = -1;
    else if (code === 38 || code === 48) {
      // Of the 256 and RGB colours only the first sixteen are kept, because they have readable styles in both themes.
      const one = numbers[i + 1] === 5;
      if (code === 38) next.colour = one && numbers[i + 2]! < 16 ? numbers[i + 2]! : -1;
      i += one ? 2 : 4;
    }
  }
  return next;
}
