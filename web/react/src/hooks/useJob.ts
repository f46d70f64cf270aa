import { useSyncExternalStore } from "react";
import { useProvided } from "../provider";
import type { JobSnapshot } from "../stores/jobStore";

const NOTHING: JobSnapshot = { state: null, problem: null };
const nobody = () => () => {};
const nothing = () => NOTHING;

/** One job, live. One connection, however many components ask. Null follows nothing. */
export function useJob(id: string | null): JobSnapshot {
  const { stores } = useProvided();
  const store = id === null ? null : stores.job(id);
  return useSyncExternalStore(store?.subscribe ?? nobody, store?.get ?? nothing, store?.get ?? nothing);
}
