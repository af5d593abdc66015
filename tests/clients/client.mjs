// What the clients' scripts share. A script is told on standard input what to do, and says in one line of JSON how it
// went: what was answered, when each piece of it came, and what the client made of a refusal.

import { text } from "node:stream/consumers";

const told = JSON.parse(await text(process.stdin));

export const { url, key, model, prompt, api } = told;

// The tool that all of them offer.
export const weather = {
  name: "weather",
  description: "Says what the weather is like in a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
  call: ({ city }) => `It rains marmalade in ${city}.`,
};

// The pieces of a stream, with the milliseconds at which they came.
export class Pieces {
  text = "";
  at = [];
  #began = performance.now();

  add(piece) {
    if (!piece) return;
    this.text += piece;
    this.at.push(Math.round(performance.now() - this.#began));
  }

  said() {
    return { text: this.text, at: this.at };
  }
}

// Does what the script was told, with the script's own way of doing it: {plain, streaming, tool}. A refusal is met by
// a plain request.
export async function serve(ways) {
  const way = ways[told.mode] ?? ways.plain;
  let said;
  try {
    said = await way();
  } catch (error) {
    const { name } = error.constructor;
    said = { error: { name, status: error.status ?? error.statusCode, message: error.message } };
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
