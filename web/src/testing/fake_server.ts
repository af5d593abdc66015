// A fetch() whose responses a test decides, and a list of the requests that it received.
import { vi } from "vitest";

export interface FakeServer {
  requests: string[]; // "GET v1/runs"
  inits: RequestInit[];
}

/** `respond` gets the path and the method; a thrown error is a connection that failed. */
export function serve(respond: (path: string, init: RequestInit) => Response | Promise<Response>): FakeServer {
  const server: FakeServer = { requests: [], inits: [] };
  vi.stubGlobal("fetch", async (path: string, init: RequestInit = {}) => {
    server.requests.push(`${init.method ?? "GET"} ${path}`);
    server.inits.push(init);
    return respond(path, init);
  });
  return server;
}

export function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
}
