import type { Dated, Opaque } from "./types";

const OPAQUE: ReadonlySet<string> = new Set<Opaque>([
  "payload",
  "result",
  "partial",
  "resume_data",
  "data",
  "schema",
  "details",
]);

/** Turns the texts of `…_at` into dates, in place. JSON that belongs to the product stays as it is. */
export function dated<T>(value: T): Dated<T> {
  if (Array.isArray(value)) value.forEach(dated);
  else if (value !== null && typeof value === "object") {
    const fields = value as Record<string, unknown>;
    for (const name of Object.keys(fields)) {
      const field = fields[name];
      if (OPAQUE.has(name)) continue;
      if (typeof field === "string" && (name === "at" || name.endsWith("_at"))) fields[name] = new Date(field);
      else dated(field);
    }
  }
  return value as Dated<T>;
}
