import { FichaError } from "@ficha/client";
import { useWords } from "@ficha/react";

/** What is said of something that failed, in the page's language where the code is known. */
export function useProblemWords(): (error: unknown) => string {
  const words = useWords();
  return (error) =>
    error instanceof FichaError ? words.refused(error) : error instanceof Error ? error.message : String(error);
}
