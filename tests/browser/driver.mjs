// Drives a browser for tests/browser.py: one line of JSON in, one line out.
//
//   {"open": "a", "options": {…}}            a page with a profile of its own
//   {"close": "a"}
//   {"page": "a", "code": "…", "args": {…}}  the body of an async function of (page, args, wait); its value is the answer
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [program] = process.argv.slice(2);
// Whatever a browser would like to tell its makers: there is no other host than this one.
const flags = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run",
  "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--enable-precise-memory-info",
  "--js-flags=--expose-gc"];
const browser = await chromium.launch({ executablePath: program, args: flags });
const pages = new Map();
const AsyncFunction = (async () => {}).constructor;
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const verbs = {
  async open({ open, options }) {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
    page.on("console", (message) => message.type() === "error" && complaints.push(`console: ${message.text()}`));
    pages.set(open, { context, page, complaints });
  },
  async close({ close }) {
    const { context, complaints } = pages.get(close);
    pages.delete(close);
    await context.close();
    return complaints;
  },
  async page({ page: name, code, args }) {
    return new AsyncFunction("page", "args", "wait", code)(pages.get(name).page, args, wait);
  },
};

console.log(JSON.stringify({ value: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const verb = Object.keys(verbs).find((name) => name in asked);
  try {
    console.log(JSON.stringify({ value: (await verbs[verb](asked)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.stack ?? error) }));
  }
}
await browser.close();
