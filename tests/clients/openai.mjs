// The package openai, with as many retries as it likes: chat completions, or responses.
import OpenAI from "openai";

import { Pieces, api, key, model, prompt, serve, url, weather } from "./client.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const { name, description, parameters, call } = weather;
const messages = [{ role: "user", content: prompt }];

const chat = {
  async plain() {
    const answer = await client.chat.completions.create({ model, messages });
    const { prompt_tokens: input, completion_tokens: output } = answer.usage;
    return { text: answer.choices[0].message.content, usage: { input, output } };
  },
  // It does not ask for usage, so it must not see any.
  async streaming() {
    const pieces = new Pieces();
    let unasked = 0;
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    for await (const chunk of stream) {
      unasked += chunk.usage || chunk.choices.length === 0 ? 1 : 0;
      pieces.add(chunk.choices[0]?.delta?.content);
    }
    return { ...pieces.said(), unasked };
  },
  async tool() {
    const runner = client.chat.completions.runTools({
      model,
      messages,
      tools: [{ type: "function", function: { name, description, parameters, parse: JSON.parse, function: call } }],
    });
    return { text: await runner.finalContent() };
  },
};

const usage_of = ({ usage }) => ({ input: usage.input_tokens, output: usage.output_tokens });

const responses = {
  async plain() {
    const answer = await client.responses.create({ model, input: prompt });
    return { text: answer.output_text, usage: usage_of(answer) };
  },
  async streaming() {
    const pieces = new Pieces();
    const stream = client.responses.stream({ model, input: prompt });
    stream.on("response.output_text.delta", (event) => pieces.add(event.delta));
    const answer = await stream.finalResponse();
    return { ...pieces.said(), usage: usage_of(answer) };
  },
  async tool() {
    const input = [{ role: "user", content: prompt }];
    const tools = [{ type: "function", name, description, parameters, strict: true }];
    for (;;) {
      const answer = await client.responses.create({ model, input, tools });
      const calls = answer.output.filter((item) => item.type === "function_call");
      if (calls.length === 0) return { text: answer.output_text };
      input.push(...answer.output);
      for (const each of calls) {
        const output = call(JSON.parse(each.arguments));
        input.push({ type: "function_call_output", call_id: each.call_id, output });
      }
    }
  },
};

await serve(api === "responses" ? responses : chat);
