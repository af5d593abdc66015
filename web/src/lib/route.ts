// The address of a screen, with its filters, behind the #. So each view can be bookmarked, shared and reached by the back
// button.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[]; // ["runs", "run_…"]
  query: URLSearchParams;
}

export function current(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** Invalid percent-encoding, such as in a typed address, stays as it is. */
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

/** Changes filters of this screen, without a history entry. Empty values are removed. */
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

/** Title of the tab while the component is mounted. */
export function useTitle(title: string): void {
  useEffect(() => {
    const before = document.title;
    document.title = `${title} · Interlock`;
    return () => void (document.title = before);
  }, [title]);
}
