// The packages of LangChain, which retry as often as they like.
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";

import { Pieces, api, key, model as model_name, prompt, serve, url, weather } from "./client.mjs";

async function make() {
  if (api === "anthropic") {
    const { ChatAnthropic } = await import("@langchain/anthropic");
    return new ChatAnthropic({ model: model_name, apiKey: key, anthropicApiUrl: url, maxTokens: 4000 });
  }
  const { ChatOpenAI } = await import("@langchain/openai");
  return new ChatOpenAI({ model: model_name, apiKey: key, configuration: { baseURL: `${url}/v1` } });
}

const model = await make();
const usage_of = (usage) => ({ input: usage.input_tokens, output: usage.output_tokens });

await serve({
  async plain() {
    const answer = await model.invoke(prompt);
    return { text: answer.text, usage: usage_of(answer.usage_metadata) };
  },
  async streaming() {
    const pieces = new Pieces();
    for await (const chunk of await model.stream(prompt)) pieces.add(chunk.text);
    return pieces.said();
  },
  async tool() {
    const { name, description, parameters, call } = weather;
    const messages = [new HumanMessage(prompt)];
    const bound = model.bindTools([tool(call, { name, description, schema: parameters })]);
    for (;;) {
      const answer = await bound.invoke(messages);
      messages.push(answer);
      if (!answer.tool_calls?.length) return { text: answer.text };
      for (const each of answer.tool_calls) {
        messages.push(new ToolMessage({ content: call(each.args), tool_call_id: each.id }));
      }
    }
  },
});
