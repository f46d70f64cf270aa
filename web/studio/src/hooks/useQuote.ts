import type { Payload, Quote } from "@ficha/client";
import { useFicha } from "@ficha/react";
import { useEffect, useState } from "react";
import { useSettled } from "./useSettled";

const REFUSED_MS = 5_000;

/**
 * What a submit of this would cost, and whether it would be admitted; null until it is known, and where the payload is not
 * whole yet. asOf: asks again when it changes, as when the balance has.
 */
export function useQuote(tool: string, payload: Payload | null, asOf: unknown): Quote | null {
  const client = useFicha();
  const [found, setFound] = useState<{ key: string; quote: Quote } | null>(null);
  const key = payload ? keyOf(tool, payload) : null;
  const settled = useSettled(key, 200);
  const quote = found && found.key === key ? found.quote : null;
  // What is refused now may be admitted soon, as when a job in another window ends.
  const isRefused = quote?.refusal != null;
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!isRefused) return;
    const timer = setInterval(() => setAgain((count) => count + 1), REFUSED_MS);
    return () => clearInterval(timer);
  }, [isRefused]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the payload, which is another object at each render.
  useEffect(() => {
    if (!payload || settled === null || settled !== key) return;
    let isCurrent = true;
    client.quote(tool, payload).then(
      (quote) => isCurrent && setFound({ key: settled, quote }),
      () => isCurrent && setFound(null),
    );
    return () => {
      isCurrent = false;
    };
  }, [client, tool, settled, key, asOf, again]);
  return quote;
}

/** A text that differs where two payloads do. A file counts by its name and size: the price does not depend on more. */
function keyOf(tool: string, payload: Payload): string {
  return `${tool} ${JSON.stringify(payload, (_, value) => (value instanceof File ? `${value.name} ${value.size}` : value))}`;
}
