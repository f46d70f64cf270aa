// Makes texts for the search of jobs: `tool:upscale state:failed error:"timed out"`.

/** A value as the search reads it: in quotes where a blank, a comma or a quote would end it. */
export function quoted(value: string): string {
  return /^[^\s,"\\]+$/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** `searchText({tool: "upscale", state: ["failed", "cancelled"]})` → `tool:upscale state:failed,cancelled`. */
export function searchText(parts: Record<string, string | readonly string[] | null | undefined>): string {
  return Object.entries(parts)
    .filter(([, value]) => value !== null && value !== undefined && value.length > 0)
    .map(([name, value]) => `${name}:${(typeof value === "string" ? [value] : (value ?? [])).map(quoted).join(",")}`)
    .join(" ");
}

const LEAST = 3;
const MOST = 4;

/**
 * The search for a group of dead letters. Its error has `…` where errors differ; the search matches parts of a text, and
 * all `error:` that it has must match. So the pieces between are asked for, the longest ones.
 */
export function deadGroupSearch(group: { tool: string; error: string }): string {
  const pieces = group.error
    .split("…")
    .map((piece) => piece.trim())
    .filter((piece) => piece.length >= LEAST);
  const longest = [...pieces].sort((a, b) => b.length - a.length).slice(0, MOST);
  const errors = pieces.filter((piece) => longest.includes(piece)).slice(0, MOST);
  return [`dead:yes tool:${quoted(group.tool)}`, ...errors.map((piece) => `error:${quoted(piece)}`)].join(" ");
}
