import type { Session } from "@ficha/client";

/** Shorter than the server's grace, so that of two windows with one session the one that stays is heard in time. */
const STAY_MS = 45_000;
/** The `leave` of a page that is loaded again may arrive after the new page's first `stay`. */
const AGAIN_MS = 10_000;

/**
 * Says that a visit goes on: now, every 45 seconds while the page is open, and when somebody comes back; and that it
 * ends, when the page is left for good. The server waits a while before it believes that. Returns how to stop.
 *
 * A page behind another window is open too: whoever reads something else while they wait keeps their place.
 */
export function attend(session: Session, everyMs = STAY_MS): () => void {
  const stay = (): void => {
    session.stay().catch(() => {});
  };
  const seen = (): void => {
    if (document.visibilityState !== "hidden") stay();
  };
  const leave = (event: PageTransitionEvent): void => {
    // A page that the browser keeps may come back; switching apps on a phone is not leaving.
    if (!event.persisted) session.leave().catch(() => {});
  };
  const again = setTimeout(stay, AGAIN_MS);
  const timer = setInterval(stay, everyMs);
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", stay);
  document.addEventListener("visibilitychange", seen);
  stay();
  return () => {
    clearTimeout(again);
    clearInterval(timer);
    window.removeEventListener("pagehide", leave);
    window.removeEventListener("pageshow", stay);
    document.removeEventListener("visibilitychange", seen);
  };
}
