import { useEffect, useRef, useState } from "react";

/** Changes within one kind are spoken this often at most. */
const EVERY_MS = 15_000;

/**
 * What a live region says: nothing at first, another kind of news at once, and news of the same kind now and then, the
 * latest only.
 */
export function useSpoken(text: string, kind: string, everyMs = EVERY_MS): string {
  const [spoken, setSpoken] = useState("");
  const last = useRef({ text, kind, at: Number.NEGATIVE_INFINITY });
  useEffect(() => {
    const { current } = last;
    if (current.text === text && current.kind === kind) return;
    const wait = current.kind === kind ? current.at + everyMs - Date.now() : 0;
    const say = (): void => {
      last.current = { text, kind, at: Date.now() };
      setSpoken(text);
    };
    if (wait <= 0) return say();
    const timer = setTimeout(say, wait);
    return () => clearTimeout(timer);
  }, [text, kind, everyMs]);
  return spoken;
}
