import { useState } from "react";

const KEPT = "studio.session";

/** The name of this window's visit: the same after a reload, another one in another window. */
export function useSession(account: string): string {
  const [session] = useState(() => {
    const key = `${KEPT}.${account}`;
    const kept = sessionStorage.getItem(key) ?? crypto.randomUUID();
    sessionStorage.setItem(key, kept);
    return kept;
  });
  return session;
}
