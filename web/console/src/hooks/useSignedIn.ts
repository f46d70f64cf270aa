import { useQuery } from "@tanstack/react-query";
import { signInQuery } from "../services/queries";
import type { SignedIn } from "../services/shapes";

/** Who is signed in. Inside the frame of the console there always is someone. */
export function useSignedIn(): SignedIn | null {
  return useQuery(signInQuery).data ?? null;
}

/** Whether to show buttons that change something. A viewer sees none; the server refuses them in any case. */
export function useMayAct(): boolean {
  return useSignedIn()?.scope === "admin";
}
