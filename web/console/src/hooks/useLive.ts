// Lists that stay current: they are asked again every few seconds, stop while the page is hidden, and can be paused.
import {
  keepPreviousData,
  type QueryKey,
  type UseQueryOptions,
  type UseQueryResult,
  useQuery,
} from "@tanstack/react-query";
import { useSyncExternalStore } from "react";

let paused = false;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setPaused(value: boolean): void {
  paused = value;
  for (const listener of listeners) listener();
}

/** Whether the person has paused all live lists. */
export function usePaused(): boolean {
  return useSyncExternalStore(subscribe, () => paused);
}

/** A query that is asked again every `everyMs`. While a new question loads, the old answer stays (`isPlaceholderData`). */
export function useLive<Answer, Selected, Key extends QueryKey>(
  options: UseQueryOptions<Answer, Error, Selected, Key>,
  everyMs = 4_000,
): UseQueryResult<Selected> {
  const isPaused = usePaused();
  return useQuery({
    placeholderData: keepPreviousData as never,
    ...options,
    refetchInterval: isPaused ? false : everyMs,
    refetchIntervalInBackground: false,
  });
}
