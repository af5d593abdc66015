// The package @google/genai.
import { GoogleGenAI } from "@google/genai";

import { Pieces, key, model, prompt, serve, url, weather } from "./client.mjs";

const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
const { name, description, parameters, call } = weather;

const usage_of = ({ usageMetadata: usage }) => ({
  input: usage.promptTokenCount,
  output: usage.candidatesTokenCount + (usage.thoughtsTokenCount ?? 0),
});

await serve({
  async plain() {
    const answer = await client.models.generateContent({ model, contents: prompt });
    return { text: answer.text, usage: usage_of(answer) };
  },
  async streaming() {
    const pieces = new Pieces();
    let last;
    for await (const chunk of await client.models.generateContentStream({ model, contents: prompt })) {
      pieces.add(chunk.text);
      last = chunk;
    }
    return { ...pieces.said(), usage: usage_of(last) };
  },
  async tool() {
    const contents = [{ role: "user", parts: [{ text: prompt }] }];
    const config = { tools: [{ functionDeclarations: [{ name, description, parametersJsonSchema: parameters }] }] };
    for (;;) {
      const answer = await client.models.generateContent({ model, contents, config });
      const calls = answer.functionCalls ?? [];
      if (calls.length === 0) return { text: answer.text };
      const results = calls.map((each) => ({
        functionResponse: { id: each.id, name: each.name, response: { output: call(each.args) } },
      }));
      contents.push(answer.candidates[0].content, { role: "user", parts: results });
    }
  },
});
