import { afterEach, expect, test } from "vitest";
import { json, serve } from "../testing/fake_server";
import { get, get_bytes, get_text, Problem, query, send, unreachable } from "./api";
import { forget, keep } from "./login";

afterEach(forget);

const problem_of = (request: Promise<unknown>) => request.then(() => undefined, (error: unknown) => error as Problem);
const header = (init: RequestInit | undefined, name: string) => (init?.headers as Record<string, string>)[name];

test("a request carries the login", async () => {
  const server = serve(() => json({ a: 1 }));
  keep("secret");

  expect(await get("v1/status")).toEqual({ a: 1 });
  expect(header(server.inits[0], "x-interlock-login")).toBe("secret");
});

test("a refusal is a problem with the server's own code and detail", async () => {
  serve(() => json({ code: "not_found", detail: "there is no run 'x'" }, 404));
  const problem = await problem_of(get("v1/runs/x"));

  expect(problem).toBeInstanceOf(Problem);
  expect(problem).toMatchObject({ status: 404, code: "not_found", detail: "there is no run 'x'" });
});

test("a response that is no problem+json is named by its status", async () => {
  serve(() => new Response("<html>bad gateway", { status: 502 }));

  expect(await problem_of(get("v1/status"))).toMatchObject({ status: 502, code: "unknown" });
  expect((await problem_of(get("v1/status")))!.detail).toContain("502");
});

test("a server that cannot be reached is a problem, and an abort stays an abort", async () => {
  serve(() => {
    throw new TypeError("no network");
  });
  expect(await problem_of(get("v1/status"))).toMatchObject({ status: unreachable, code: "unreachable" });

  serve(() => {
    throw new DOMException("aborted", "AbortError");
  });
  expect(await problem_of(get("v1/status"))).toMatchObject({ name: "AbortError" });
});

test("a change whose response was lost is repeated once, with the same idempotency key", async () => {
  let lost = 1;
  const server = serve(() => {
    if (lost-- > 0) throw new TypeError("connection reset");
    return json({ id: "run_1" }, 201);
  });

  expect(await send("POST", "v1/runs", { agent: "a" })).toEqual({ id: "run_1" });
  expect(server.requests).toEqual(["POST v1/runs", "POST v1/runs"]);
  const keys = server.inits.map((init) => header(init, "idempotency-key"));
  expect(keys[0]).toMatch(/^\d+(-\d+){3}$/);
  expect(keys[1]).toBe(keys[0]);
  expect(server.inits[1]!.body).toBe('{"agent":"a"}');
});

test("a change that was refused is not repeated", async () => {
  const server = serve(() => json({ code: "forbidden", detail: "no" }, 403));

  expect(await problem_of(send("POST", "v1/runs"))).toMatchObject({ code: "forbidden" });
  expect(server.requests).toHaveLength(1);
});

test("two changes have different idempotency keys", async () => {
  const server = serve(() => json({}));
  await send("POST", "v1/runs");
  await send("POST", "v1/runs");

  expect(header(server.inits[0], "idempotency-key")).not.toBe(header(server.inits[1], "idempotency-key"));
});

test("a deletion has no body, and a response without one is undefined", async () => {
  const server = serve(() => new Response(null, { status: 204 }));

  expect(await send("DELETE", "v1/keys/x")).toBeUndefined();
  expect(server.inits[0]!.body).toBeUndefined();
});

test("text and bytes come with their headers", async () => {
  serve(() => new Response("é", { headers: { "x-interlock-log-next": "2" } }));

  expect((await get_text("v1/x")).text).toBe("é");
  const { bytes, headers } = await get_bytes("v1/x");
  expect([...bytes]).toEqual([0xc3, 0xa9]);
  expect(headers.get("x-interlock-log-next")).toBe("2");
});

test("only stated parameters are in a path", () => {
  expect(query("v1/runs", { agent: "a b", status: "", name: undefined, after: null })).toBe("v1/runs?agent=a+b");
  expect(query("v1/runs", { limit: 0, refused: false })).toBe("v1/runs?limit=0&refused=false");
  expect(query("v1/runs", {})).toBe("v1/runs");
});
