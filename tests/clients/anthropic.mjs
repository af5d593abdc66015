// The package @anthropic-ai/sdk, with as many retries as it likes.
import Anthropic from "@anthropic-ai/sdk";

import { Pieces, key, model, prompt, serve, url, weather } from "./client.mjs";

const client = new Anthropic({ baseURL: url, apiKey: key });
const { name, description, parameters, call } = weather;
const request = { model, max_tokens: 4000, messages: [{ role: "user", content: prompt }] };

const usage_of = ({ usage }) => ({
  input: usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
  output: usage.output_tokens,
});

await serve({
  async plain() {
    const answer = await client.messages.create(request);
    return { text: answer.content[0].text, usage: usage_of(answer) };
  },
  async streaming() {
    const pieces = new Pieces();
    const stream = client.messages.stream(request).on("text", (text) => pieces.add(text));
    const answer = await stream.finalMessage();
    return { ...pieces.said(), usage: usage_of(answer) };
  },
  async tool() {
    const messages = [...request.messages];
    const tools = [{ name, description, input_schema: parameters }];
    for (;;) {
      const answer = await client.messages.create({ ...request, messages, tools });
      if (answer.stop_reason !== "tool_use") return { text: answer.content[0].text };
      const results = answer.content
        .filter((block) => block.type === "tool_use")
        .map((block) => ({ type: "tool_result", tool_use_id: block.id, content: call(block.input) }));
      messages.push({ role: "assistant", content: answer.content }, { role: "user", content: results });
    }
  },
});
