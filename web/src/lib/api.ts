// Requests to the server, and what it says when one fails.
import { login_header } from "./login";

/** What the API says went wrong: problem+json, in its own words. */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, readonly detail: string) {
    super(detail);
  }
}

/** The server could not be reached at all. */
export const unreachable = 0;

async function problem_of(response: Response): Promise<Problem> {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body.code ?? "unknown", body.detail ?? `the server answered ${response.status}`);
}

async function ask(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init, headers: { ...init.headers, ...login_header() } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(unreachable, "unreachable", "the server does not answer");
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

/** What is not cut where characters end, such as a piece of a log. */
export async function get_bytes(path: string, signal?: AbortSignal): Promise<{ bytes: Uint8Array; headers: Headers }> {
  const response = await ask(path, { signal });
  return { bytes: new Uint8Array(await response.arrayBuffer()), headers: response.headers };
}

/** A file for the one who looks. A plain link would come without the page's half of the login. */
export async function save(path: string, file: string): Promise<void> {
  const url = URL.createObjectURL(await (await ask(path, {})).blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = file;
  link.click();
  URL.revokeObjectURL(url);
}

export type Method = "POST" | "PUT" | "DELETE";

/** A change. A repeat of it, after an answer that was lost, is the same change. */
export async function send<T = unknown>(method: Method, path: string, body: object = {}): Promise<T | undefined> {
  const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  const init = {
    method,
    headers: { "content-type": "application/json", "idempotency-key": key },
    body: method === "DELETE" ? undefined : JSON.stringify(body),
  };
  const answer = await ask(path, init).catch((error: unknown) => {
    if (error instanceof Problem && error.status === unreachable) return ask(path, init);
    throw error;
  });
  return answer.status === 204 ? undefined : answer.json();
}

/** Parameters that are not stated are left out. */
export function query(path: string, parameters: Record<string, string | number | boolean | undefined | null>): string {
  const stated = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") stated.set(name, String(value));
  }
  return stated.size > 0 ? `${path}?${stated}` : path;
}
