// The parts of a browser that src/lib uses. Vitest runs this file before each test file.
import { vi } from "vitest";

const address = new URL("http://127.0.0.1:4100/");

class FakeStorage {
  private readonly values = new Map<string, string>();
  getItem(name: string): string | null {
    return this.values.get(name) ?? null;
  }
  setItem(name: string, value: string): void {
    this.values.set(name, value);
  }
  removeItem(name: string): void {
    this.values.delete(name);
  }
}

vi.stubGlobal("window", globalThis);
open_page();
vi.stubGlobal("HashChangeEvent", Event);
vi.stubGlobal("localStorage", new FakeStorage());
vi.stubGlobal("crypto", { getRandomValues: (values: Uint32Array) => values.map(() => Math.floor(Math.random() * 2 ** 32)) }); // Node.js 18 has none.
vi.stubGlobal("location", address);
vi.stubGlobal("history", {
  replaceState: (_state: unknown, _title: string, url: string) => {
    address.href = new URL(url, address).href;
  },
});

/** Begins a page to which no earlier test listens. */
export function open_page(): void {
  const events = new EventTarget();
  vi.stubGlobal("addEventListener", events.addEventListener.bind(events));
  vi.stubGlobal("removeEventListener", events.removeEventListener.bind(events));
  vi.stubGlobal("dispatchEvent", events.dispatchEvent.bind(events));
  vi.stubGlobal("document", Object.assign(new EventTarget(), { hidden: false }));
}

export function hide_page(hidden: boolean): void {
  Object.assign(document, { hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
