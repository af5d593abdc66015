// Keyboard selection of a row in a list: j and k move it, Enter opens the row.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKeys } from "./keys";

export function useSelectedRow(ids: string[], open: (id: string) => void): string | undefined {
  const [chosen, show] = useState<string>();
  // Keys may arrive faster than renders.
  const now = useRef({ ids, chosen });
  now.current.ids = ids;
  useKeys(useMemo(() => {
    const choose = (id: string | undefined) => show((now.current.chosen = id));
    const move = (by: number) => {
      const all = now.current.ids;
      const at = all.indexOf(now.current.chosen ?? "");
      choose(all[at === -1 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))]);
      // So that Enter opens the row and does not press the last used button.
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    };
    return {
      j: () => move(1),
      k: () => move(-1),
      Enter: () => now.current.chosen !== undefined && open(now.current.chosen),
      Escape: () => choose(undefined),
    };
  }, []));
  useEffect(() => document.querySelector('tr[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [chosen]);
  return chosen;
}
