import { useEffect, useRef } from "react";

/** Takes a picture that is pasted anywhere on the page, unless it is pasted into a text. */
export function usePaste(take: ((file: File) => void) | null): void {
  const taken = useRef(take);
  taken.current = take;
  useEffect(() => {
    const pasted = (event: ClipboardEvent) => {
      const file = event.clipboardData?.files[0];
      if (!file || !taken.current) return;
      event.preventDefault();
      taken.current(file);
    };
    document.addEventListener("paste", pasted);
    return () => document.removeEventListener("paste", pasted);
  }, []);
}
