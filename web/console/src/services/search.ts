// Reads the query of an address. What is not understood is left out, so that an old or mistyped address still opens.

export type RawSearch = Record<string, unknown>;

/** A text, or nothing. A number in an address (`?cursor=12`) was a text before the router read it. */
export function text(value: unknown): string | undefined {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function oneOf<Word extends string>(value: unknown, words: readonly Word[]): Word | undefined {
  return words.find((word) => word === value);
}
