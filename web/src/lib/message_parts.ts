// Parts of a message: text, tool calls, tool results, and other JSON.
import type { Message } from "./types";

export interface Part {
  kind: "text" | "call" | "result" | "json";
  head?: string;
  text: string;
}

// Content beyond these is shown as plain text. Agents choose it: formatting JSON that is nested 100,000 times overflows the
// stack, and indents some megabytes.
const parsed_max = 400_000;
const depth_max = 32;

/** The content of a message and its tool calls. */
export function parts_of(message: Message): Part[] {
  const parts = content_parts(message.content);
  const calls = message.metadata?.tool_calls;
  return Array.isArray(calls) ? [...parts, ...calls.flatMap(block_parts)] : parts;
}

function content_parts(content: string): Part[] {
  if (content === "") return [];
  const value = parsed(content);
  if (value === undefined) return [{ kind: "text", text: content }];
  return (Array.isArray(value) ? value : [value]).flatMap(block_parts);
}

/** A JSON object or array. Other JSON values are treated as text that people wrote. */
function parsed(text: string): unknown {
  if (text.length > parsed_max || !/^\s*[[{]/.test(text) || depth_of(text) > depth_max) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Nesting of JSON text. Brackets in strings do not count. One pass, because the text may be made to slow down a search. */
function depth_of(text: string): number {
  let depth = 0;
  let deepest = 0;
  let in_string = false;
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i];
    if (in_string && char === "\\") i += 1;
    else if (char === '"') in_string = !in_string;
    else if (!in_string && (char === "[" || char === "{")) deepest = Math.max(deepest, (depth += 1));
    else if (!in_string && (char === "]" || char === "}")) depth -= 1;
  }
  return deepest;
}

type Fields = Record<string, unknown>;

/** Content of provider messages: text, tool calls and tool results. All else is shown as JSON. */
function block_parts(value: unknown): Part[] {
  if (typeof value === "string") return [{ kind: "text", text: value }];
  if (typeof value !== "object" || value === null) return [{ kind: "json", text: JSON.stringify(value) }];
  const block = value as Fields;
  if (typeof block.text === "string") return [{ kind: "text", text: block.text }];
  if (Array.isArray(block.tool_calls)) {
    const words = typeof block.content === "string" ? content_parts(block.content) : [];
    return [...words, ...block.tool_calls.flatMap(block_parts)];
  }
  const called = (block.function ?? block.functionCall ?? block) as Fields;
  const given = called.input ?? called.arguments ?? called.args;
  if (typeof called.name === "string" && given !== undefined) {
    return [{ kind: "call", head: `calls ${called.name}`, text: readable(given) }];
  }
  if (block.type === "tool_result") {
    const inner = Array.isArray(block.content) ? block.content.flatMap(block_parts).map((part) => part.text).join("\n") : readable(block.content);
    return [{ kind: "result", head: block.is_error === true ? "the tool failed" : "result", text: inner }];
  }
  return [{ kind: "json", text: JSON.stringify(value, null, 2) }];
}

/** Arguments are an object, or JSON text. */
function readable(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  const inner = parsed(value);
  return inner === undefined ? value : JSON.stringify(inner, null, 2);
}
