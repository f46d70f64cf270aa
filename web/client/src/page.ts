/** What a follower does when the page is left alone, and when somebody is back. */
export interface PageListener {
  /** Nobody has looked for a while, or the page is being left: close connections. */
  sleep(): void;
  /** Somebody is back, or the network is: connect at once. */
  wake(): void;
}

/** Tells a listener of the page's life. Outside a browser nothing is ever told. Returns how to stop. */
export function watchPage(listener: PageListener, hiddenMs: number): () => void {
  if (typeof window === "undefined" || typeof document === "undefined") return () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsleep = false;
  const sleep = (): void => {
    isAsleep = true;
    listener.sleep();
  };
  const wake = (): void => {
    isAsleep = false;
    listener.wake();
  };
  const seen = (): void => {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") timer = setTimeout(sleep, hiddenMs);
    else if (isAsleep) wake();
  };
  // A page that may come back from the browser's cache must not keep a connection open.
  const shown = (event: Event): void => {
    if (isAsleep || (event as PageTransitionEvent).persisted) wake();
  };
  // A hidden page that sleeps goes on sleeping.
  const online = (): void => {
    if (document.visibilityState !== "hidden" || !isAsleep) wake();
  };
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("online", online);
  window.addEventListener("pageshow", shown);
  window.addEventListener("pagehide", sleep);
  seen();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
    window.removeEventListener("online", online);
    window.removeEventListener("pageshow", shown);
    window.removeEventListener("pagehide", sleep);
  };
}
