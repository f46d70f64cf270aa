// Keys of the whole console. Single letters work only outside fields and dialogs, and can be switched off: some people
// speak to their computer, and to it a word is a row of letters.
import { useEffect, useRef, useSyncExternalStore } from "react";

/** How the chord of the palette is written on this machine. */
export const CHORD = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘K" : "Ctrl K";

const SETTING = "ficha.letters";
const listeners = new Set<() => void>();

function readLetters(): boolean {
  try {
    return localStorage.getItem(SETTING) !== "off";
  } catch {
    return true;
  }
}

export function setLetters(isOn: boolean): void {
  try {
    if (isOn) localStorage.removeItem(SETTING);
    else localStorage.setItem(SETTING, "off");
  } catch {
    // Storage is refused: the letters stay on.
  }
  for (const listener of listeners) listener();
}

export function useLetters(): boolean {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, readLetters);
}

export interface KeyActs {
  palette: () => void;
  help: () => void;
  search: () => void;
  /** A letter was pressed. Says whether it meant something. */
  letter: (key: string) => boolean;
}

/** What a key press means: the palette's own chord anywhere, single keys only where nobody writes. */
export function meaningOf(event: KeyboardEvent): "palette" | "help" | "search" | "letter" | null {
  if ((event.metaKey || event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k")
    return "palette";
  if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing || event.defaultPrevented) return null;
  const target = event.target instanceof Element ? event.target : null;
  if (target?.closest("input, textarea, select, [contenteditable], dialog[open]")) return null;
  if (event.key === "?") return "help";
  if (event.key === "/") return "search";
  return /^[a-z]$/.test(event.key) ? "letter" : null;
}

export function useKeys(acts: KeyActs): void {
  const latest = useRef(acts);
  useEffect(() => {
    latest.current = acts;
  });
  useEffect(() => {
    function press(event: KeyboardEvent) {
      const meaning = meaningOf(event);
      if (meaning === null) return;
      if (meaning !== "palette" && document.querySelector("dialog[open]")) return;
      if (meaning === "letter") {
        if (readLetters() && latest.current.letter(event.key)) event.preventDefault();
        return;
      }
      if (meaning !== "palette" && !readLetters()) return;
      event.preventDefault();
      latest.current[meaning]();
    }
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}
