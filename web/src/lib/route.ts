// Where on the page somebody is. Everything that can be chosen is in the address, behind the #, so that it can be kept,
// sent to others and gone back to.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[]; // ["runs", "run_…"]
  query: URLSearchParams;
}

export function current(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** What somebody typed may not be an encoding of anything; then it is what it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function useRoute(): Route {
  const [route, set] = useState(current);
  useEffect(() => {
    const listener = () => set(current());
    window.addEventListener("hashchange", listener);
    return () => window.removeEventListener("hashchange", listener);
  }, []);
  return route;
}

export function link(...path: string[]): string {
  return `#/${path.map(encodeURIComponent).join("/")}`;
}

export function go(...path: string[]): void {
  location.hash = link(...path);
}

/** Changes what is chosen here; an empty value is left out. Not a step to go back to. */
export function choose(changes: Record<string, string | undefined>): void {
  const { path, query } = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const address = link(...path) + (query.size > 0 ? `?${query}` : "");
  history.replaceState(null, "", address);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The name of the tab for as long as something is shown; then it is the screen's again. */
export function useTitle(title: string): void {
  useEffect(() => {
    const before = document.title;
    document.title = `${title} · Interlock`;
    return () => void (document.title = before);
  }, [title]);
}
