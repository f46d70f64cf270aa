// What there is to look at in a result, whatever its shape.

export type Shown =
  | { kind: "file"; key: string; file: string; name: string; mediaType: string }
  | { kind: "data"; key: string; url: string };

/** How many of a result are shown; a result may name thousands. */
const MOST = 48;
const DEEPEST = 12;

/** The files and pictures that a result, or a part of one, names, in their order. */
export function shownIn(value: unknown): Shown[] {
  const found = new Map<string, Shown>();
  look(value, found, 0);
  return [...found.values()];
}

function look(value: unknown, found: Map<string, Shown>, depth: number): void {
  if (found.size >= MOST || depth > DEEPEST) return;
  if (typeof value === "string") {
    // Shown as a picture, and therefore harmless: a browser runs nothing within one.
    if (/^data:image\/[a-z+.-]+[;,]/i.test(value)) add(found, { kind: "data", key: keyOf(value), url: value });
  } else if (Array.isArray(value)) for (const item of value) look(item, found, depth + 1);
  else if (value !== null && typeof value === "object") {
    const { file, name, media_type: mediaType } = value as Record<string, unknown>;
    if (typeof file === "string" && typeof mediaType === "string") {
      add(found, { kind: "file", key: file, file, name: typeof name === "string" ? name : file, mediaType });
    } else for (const item of Object.values(value)) look(item, found, depth + 1);
  }
}

function add(found: Map<string, Shown>, shown: Shown): void {
  if (!found.has(shown.key)) found.set(shown.key, shown);
}

/** Long texts are told apart by their length, beginning, middle and end. */
function keyOf(text: string): string {
  const middle = text.length >> 1;
  return `${text.length} ${text.slice(0, 64)} ${text.slice(middle, middle + 64)} ${text.slice(-64)}`;
}
