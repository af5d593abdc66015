// Keys of the keyboard. Whoever types into a field, or holds a modifier, does not mean the page.
import { useEffect } from "preact/hooks";

/** A binding that answers false did not mean the key. */
export function useKeys(bindings: Record<string, (event: KeyboardEvent) => unknown>, active = true): void {
  useEffect(() => {
    if (!active) return;
    const listener = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      // A dialog has its own keys, and Escape closes it.
      if (at.closest?.("dialog")) return;
      if (event.key !== "Escape" && at.closest?.("input, textarea, select, [contenteditable]")) return;
      // A button or a link that has the focus is what Enter and the space bar press.
      if ((event.key === "Enter" || event.key === " ") && at.closest?.("a, button, summary")) return;
      const binding = bindings[event.key];
      if (binding && binding(event) !== false) event.preventDefault();
    };
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, [bindings, active]);
}
