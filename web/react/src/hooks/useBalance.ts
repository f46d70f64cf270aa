import { useSyncExternalStore } from "react";
import { useProvided } from "../provider";
import type { BalanceSnapshot } from "../stores/balanceStore";

export interface Balance extends BalanceSnapshot {
  /** Shows a change before the server has said so; what it returns takes it back. */
  expect(delta: number): () => void;
  refresh(): Promise<void>;
}

/** The account's credits. They follow submits, cancels and ends by themselves. */
export function useBalance(): Balance {
  const store = useProvided().stores.balance;
  const found = useSyncExternalStore(store.subscribe, store.get, store.get);
  return { ...found, expect: store.expect, refresh: store.refresh };
}
