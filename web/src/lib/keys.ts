// Keyboard shortcuts. Keys with a modifier, and keys typed into a field, are not shortcuts.
import { useEffect } from "preact/hooks";

/** A binding that returns false leaves the key to the browser. */
export function useKeys(bindings: Record<string, (event: KeyboardEvent) => unknown>, active = true): void {
  useEffect(() => {
    if (!active) return;
    const listener = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      // A dialog handles its keys itself.
      if (at.closest?.("dialog")) return;
      if (event.key !== "Escape" && at.closest?.("input, textarea, select, [contenteditable]")) return;
      // Enter and space press a focused button or link.
      if ((event.key === "Enter" || event.key === " ") && at.closest?.("a, button, summary")) return;
      const binding = bindings[event.key];
      if (binding && binding(event) !== false) event.preventDefault();
    };
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, [bindings, active]);
}
