// The row of a list that the keyboard is at: j and k move, Enter opens.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKeys } from "./keys";

export function useChosen(ids: string[], open: (id: string) => void): string | undefined {
  const [chosen, show] = useState<string>();
  // Keys may come quicker than the page is drawn.
  const now = useRef({ ids, chosen });
  now.current.ids = ids;
  useKeys(useMemo(() => {
    const choose = (id: string | undefined) => show((now.current.chosen = id));
    const move = (by: number) => {
      const all = now.current.ids;
      const at = all.indexOf(now.current.chosen ?? "");
      choose(all[at === -1 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))]);
      // Enter is for the row from now on, not for the button that was pressed before.
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
