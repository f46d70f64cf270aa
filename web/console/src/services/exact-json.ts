/**
 * JSON in which no number loses a digit.
 *
 * `JSON.parse` turns 12345678901234567890 into 12345678901234567000, 1e400 into Infinity and 1.0 into 1. An operator
 * must see what was sent. `parseJson` gives the usual values and remembers, for each number that would read
 * differently, the text the server sent; `exactText` gives it back for the object or array that holds the number.
 * The memory hangs on that object: a copy has none. Query clients that copy answers must not (`structuralSharing: false`).
 */
const texts = new WeakMap<object, Map<string, string>>();

type Reviver = (this: object, key: string, value: unknown, context?: { source?: string }) => unknown;

export function parseJson(text: string): unknown {
  const keep: Reviver = function (key, value, context) {
    const source = context?.source;
    if (typeof value === "number" && source !== undefined && source !== String(value)) {
      const known = texts.get(this) ?? new Map<string, string>();
      known.set(key, source);
      texts.set(this, known);
    }
    return value;
  };
  return JSON.parse(text, keep as (this: unknown, key: string, value: unknown) => unknown);
}

/** The number `holder[key]` as the server wrote it. */
export function exactText(holder: object, key: string, value: number): string {
  return texts.get(holder)?.get(key) ?? String(value);
}

export const MASK = "••••••";
const SECRET =
  /^(.*[_-])?(password|passwd|secret|token|api[_-]?key|authorization|credential|private[_-]?key|cookie)s?$/i;

/** A field with such a name is never shown, nor copied. */
export const isSecretName = (name: string): boolean => SECRET.test(name);

/** `holder[key]` as indented JSON, every number as it was sent, secrets masked: what "copy" gives. */
export function writeJson(holder: object, key: string, value: unknown, indent = ""): string {
  if (typeof value === "number") return exactText(holder, key, value);
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = `${indent}  `;
  const lines = Array.isArray(value)
    ? value.map((item, index) => inner + writeJson(value, String(index), item, inner))
    : Object.entries(value).map(([name, item]) => {
        const text = isSecretName(name) && item !== null ? JSON.stringify(MASK) : writeJson(value, name, item, inner);
        return `${inner}${JSON.stringify(name)}: ${text}`;
      });
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return lines.length === 0 ? open + close : `${open}\n${lines.join(",\n")}\n${indent}${close}`;
}
