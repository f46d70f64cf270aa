import type { Session } from "@ficha/client";

const STAY_MS = 60_000;

/**
 * Says that a visit goes on: now, every minute while the page can be seen, and when somebody comes back; and that it
 * ends, when the page is left for good. The server waits a while before it believes that. Returns how to stop.
 */
export function attend(session: Session, everyMs = STAY_MS): () => void {
  const stay = (): void => {
    if (document.visibilityState !== "hidden") session.stay().catch(() => {});
  };
  const leave = (event: PageTransitionEvent): void => {
    // A page that the browser keeps may come back; switching apps on a phone is not leaving.
    if (!event.persisted) session.leave().catch(() => {});
  };
  const timer = setInterval(stay, everyMs);
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", stay);
  document.addEventListener("visibilitychange", stay);
  stay();
  return () => {
    clearInterval(timer);
    window.removeEventListener("pagehide", leave);
    window.removeEventListener("pageshow", stay);
    document.removeEventListener("visibilitychange", stay);
  };
}
