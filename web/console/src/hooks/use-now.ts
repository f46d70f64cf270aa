import { useSyncExternalStore } from "react";

/** One clock for every relative time on the page: it ticks each second while somebody reads it and the page is shown. */
const listeners = new Set<() => void>();
let now = new Date();
let timer: ReturnType<typeof setInterval> | undefined;

function tick() {
  if (typeof document !== "undefined" && document.hidden) return;
  now = new Date();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    now = new Date();
    timer = setInterval(tick, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** What `read` makes of the present time; the component renders again only when that changes. */
export function useNow<Value extends string | number | boolean>(read: (now: Date) => Value): Value {
  return useSyncExternalStore(subscribe, () => read(now));
}
