// The package ai with the providers' packages, which retry as often as they like.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

import { Pieces, api, key, model as model_name, prompt, serve, url, weather } from "./client.mjs";

const models = {
  openai: () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key })(model_name),
  "openai-chat": () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model_name),
  anthropic: () => createAnthropic({ baseURL: `${url}/v1`, apiKey: key })(model_name),
  // It takes a name with a slash for a path.
  google: () => createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: key })(`models/${model_name}`),
};
const model = models[api]();

const usage_of = (usage) => ({ input: usage.inputTokens, output: usage.outputTokens });

await serve({
  async plain() {
    const { text, usage } = await generateText({ model, prompt });
    return { text, usage: usage_of(usage) };
  },
  async streaming() {
    const pieces = new Pieces();
    const result = streamText({ model, prompt });
    for await (const piece of result.textStream) pieces.add(piece);
    return { ...pieces.said(), usage: usage_of(await result.usage) };
  },
  async tool() {
    const { description, parameters, call } = weather;
    const execute = async (input) => call(input);
    const tools = { weather: tool({ description, inputSchema: jsonSchema(parameters), execute }) };
    const { text } = await generateText({ model, prompt, tools, stopWhen: stepCountIs(3) });
    return { text };
  },
});
