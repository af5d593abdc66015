import { expect, test } from "vitest";
import { parts_of } from "./message_parts";
import type { Message } from "./types";

const parts = (content: unknown, metadata: Record<string, unknown> = {}) =>
  parts_of({ content: typeof content === "string" ? content : JSON.stringify(content), metadata } as Message);

test("text is text, also if it is a number or looks like JSON", () => {
  for (const text of ["Hello", "42", "null", '"quoted"', "{not json", "[1, 2", "<b>bold</b>"]) expect(parts(text)).toEqual([{ kind: "text", text }]);
});

test("no content has no parts", () => {
  expect(parts("")).toEqual([]);
});

test("blocks of text are joined in their order", () => {
  expect(parts([{ type: "text", text: "a" }, "b"])).toEqual([{ kind: "text", text: "a" }, { kind: "text", text: "b" }]);
});

test.each([
  ["Anthropic", [{ type: "tool_use", name: "ls", input: { path: "/" } }]],
  ["OpenAI", { content: "", tool_calls: [{ type: "function", function: { name: "ls", arguments: '{"path":"/"}' } }] }],
  ["Gemini", [{ functionCall: { name: "ls", args: { path: "/" } } }]],
])("a tool call of %s names the tool and has readable arguments", (_, content) => {
  expect(parts(content)).toEqual([{ kind: "call", head: "calls ls", text: '{\n  "path": "/"\n}' }]);
});

test("tool calls in the metadata come after the content", () => {
  const calls = [{ function: { name: "ls", arguments: "not json" } }];

  expect(parts("Let me look.", { tool_calls: calls })).toEqual([
    { kind: "text", text: "Let me look." }, { kind: "call", head: "calls ls", text: "not json" },
  ]);
});

test("a tool result is text, and says if the tool failed", () => {
  expect(parts([{ type: "tool_result", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }]))
    .toEqual([{ kind: "result", head: "result", text: "a\nb" }]);
  expect(parts([{ type: "tool_result", is_error: true, content: "no such file" }]))
    .toEqual([{ kind: "result", head: "the tool failed", text: "no such file" }]);
});

test("all other JSON is shown as JSON", () => {
  expect(parts({ a: 1 })).toEqual([{ kind: "json", text: '{\n  "a": 1\n}' }]);
  expect(parts([1, null])).toEqual([{ kind: "json", text: "1" }, { kind: "json", text: "null" }]);
  expect(parts([{ function: null, name: 1, input: {} }])[0]!.kind).toBe("json");
});

test("JSON that is nested deeply is shown as text, because formatting it would take too long", () => {
  for (const depth of [100, 100_000]) {
    const text = "[".repeat(depth) + "]".repeat(depth);
    expect(parts(text)).toEqual([{ kind: "text", text }]);
  }
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  expect(parts([{ name: "ls", input: deep }])).toEqual([{ kind: "call", head: "calls ls", text: deep }]);
});

test("an unended string of escaped quotes takes no time", () => {
  const text = `["${'\\"'.repeat(190_000)}`;
  const begun = performance.now();

  expect(parts(text)).toEqual([{ kind: "text", text }]);
  expect(performance.now() - begun).toBeLessThan(20_000);
});

test("brackets inside of strings are no nesting", () => {
  const text = `\\"${"[".repeat(100)}`;

  expect(parts([{ text }])).toEqual([{ kind: "text", text }]);
});
