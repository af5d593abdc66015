// Requests to the API, and the problems that it responds with.
import { login_header } from "./login";

/** An error of the API (problem+json). */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, readonly detail: string) {
    super(detail);
  }
}

/** Status of a Problem if there was no response. */
export const unreachable = 0;

async function problem_of(response: Response): Promise<Problem> {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body.code ?? "unknown", body.detail ?? `the server responded with ${response.status}`);
}

async function ask(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init, headers: { ...init.headers, ...login_header() } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(unreachable, "unreachable", "the server does not respond");
  }
  if (!response.ok) throw await problem_of(response);
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask(path, { headers: { accept: "application/json" }, signal })).json();
}

export async function get_text(path: string, signal?: AbortSignal): Promise<{ text: string; headers: Headers }> {
  const response = await ask(path, { signal });
  return { text: await response.text(), headers: response.headers };
}

/** For pieces of a log, which may begin or end inside a character. */
export async function get_bytes(path: string, signal?: AbortSignal): Promise<{ bytes: Uint8Array; headers: Headers }> {
  const response = await ask(path, { signal });
  return { bytes: new Uint8Array(await response.arrayBuffer()), headers: response.headers };
}

/** Downloads a file. A plain link would lack the login header. */
export async function save(path: string, file: string): Promise<void> {
  const url = URL.createObjectURL(await (await ask(path, {})).blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = file;
  link.click();
  URL.revokeObjectURL(url);
}

export type Method = "POST" | "PUT" | "DELETE";

/** Sends a change. If the response is lost, it is sent once more with the same idempotency key. */
export async function send<T = unknown>(method: Method, path: string, body: object = {}): Promise<T | undefined> {
  const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  const init = {
    method,
    headers: { "content-type": "application/json", "idempotency-key": key },
    body: method === "DELETE" ? undefined : JSON.stringify(body),
  };
  const response = await ask(path, init).catch((error: unknown) => {
    if (error instanceof Problem && error.status === unreachable) return ask(path, init);
    throw error;
  });
  return response.status === 204 ? undefined : response.json();
}

/** A path with its parameters. Undefined, null and empty ones are left out. */
export function query(path: string, parameters: Record<string, string | number | boolean | undefined | null>): string {
  const stated = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") stated.set(name, String(value));
  }
  return stated.size > 0 ? `${path}?${stated}` : path;
}
