import { useEffect } from "react";
import { useProvided } from "../provider";

/**
 * Gives up this visit's waiting jobs when the page is left: the server cancels and refunds them after a while, unless
 * somebody comes back. Running jobs go on.
 */
export function useQueueSessionCleanup(session: string | null | undefined): void {
  const { stores } = useProvided();
  useEffect(() => (session ? stores.visit(session).use() : undefined), [stores, session]);
}
