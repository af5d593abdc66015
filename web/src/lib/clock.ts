// One timer for all relative times, so that they change together.
import { useEffect, useState } from "preact/hooks";

const listeners = new Set<() => void>();
let timer = 0;

export function useNow(step_ms = 1_000): number {
  const [now, set] = useState(() => Date.now());
  useEffect(() => {
    let last = Date.now();
    const listener = () => {
      if (Date.now() - last < step_ms - 50) return;
      last = Date.now();
      set(last);
    };
    listeners.add(listener);
    if (timer === 0) timer = window.setInterval(() => document.hidden || listeners.forEach((each) => each()), 1_000);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) {
        clearInterval(timer);
        timer = 0;
      }
    };
  }, [step_ms]);
  return now;
}
