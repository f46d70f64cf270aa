const NAME = "ficha:session";

/** A name for this visit, kept until the tab is closed: for `useGenerationQueue` and `useQueueSessionCleanup`. */
export function visitSession(): string {
  try {
    const found = sessionStorage.getItem(NAME);
    if (found) return found;
    const made = randomName();
    sessionStorage.setItem(NAME, made);
    return made;
  } catch {
    return ownName;
  }
}

function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Where the browser keeps nothing. */
const ownName = randomName();
