import { type MouseEvent, useCallback, useEffect, useRef, useState } from "react";

export interface ProcessingButton<T> {
  /** For a `<button>`. It stays focusable while it works, unlike one that is `disabled`. */
  props: {
    onClick(event: MouseEvent): void;
    "aria-disabled": boolean;
    "aria-busy": boolean;
  };
  isBusy: boolean;
  /** What a press does. While it works, every further press is the same one. */
  press(): Promise<T>;
}

/** A button that cannot fire twice. */
export function useProcessingButton<T>(act: () => T | Promise<T>): ProcessingButton<T> {
  const [isBusy, setBusy] = useState(false);
  const latest = useRef(act);
  const working = useRef<Promise<T> | null>(null);
  useEffect(() => {
    latest.current = act;
  });
  const press = useCallback((): Promise<T> => {
    if (!working.current) {
      setBusy(true);
      // Called in the press itself: what opens a file dialog or a window must be.
      const started = attempt(() => latest.current());
      const over = (): void => {
        working.current = null;
        setBusy(false);
      };
      working.current = started;
      started.then(over, over);
    }
    return working.current;
  }, []);
  const onClick = useCallback(
    (event: MouseEvent) => {
      // A second click on a form's button must not send the form either.
      if (working.current) event.preventDefault();
      press().catch((error: unknown) => {
        // Nobody else hears of it.
        queueMicrotask(() => {
          throw error;
        });
      });
    },
    [press],
  );
  return { props: { onClick, "aria-disabled": isBusy, "aria-busy": isBusy }, isBusy, press };
}

function attempt<T>(act: () => T | Promise<T>): Promise<T> {
  try {
    return Promise.resolve(act());
  } catch (error) {
    return Promise.reject(error);
  }
}
