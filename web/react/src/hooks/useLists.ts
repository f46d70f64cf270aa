import type { LibraryQuery } from "@ficha/client";
import { useSyncExternalStore } from "react";
import { useProvided } from "../provider";
import type { LibrarySnapshot, ToolsSnapshot } from "../stores/listStores";

/** The tools that the account may use, with their prices and the schemas of their payloads. */
export function useTools(): ToolsSnapshot & { refresh(): Promise<void> } {
  const store = useProvided().stores.tools;
  const found = useSyncExternalStore(store.subscribe, store.get, store.get);
  return { ...found, refresh: store.refresh };
}

export interface Library extends LibrarySnapshot {
  /** The next page. */
  more(): Promise<void>;
  refresh(): Promise<void>;
  remove(jobId: string): Promise<void>;
}

/** The account's completed work, newest first. It is read again when a job of this page has ended. */
export function useLibrary(query: LibraryQuery = {}): Library {
  const store = useProvided().stores.library(query);
  const found = useSyncExternalStore(store.subscribe, store.get, store.get);
  return { ...found, more: store.more, refresh: store.refresh, remove: store.remove };
}
