/**
 * Where a reader of cursor pages came from. The address holds the present cursor only; a server's cursor leads forward.
 * `undefined` is the first page. A page opened from a shared address has no trail: back leads to the first page.
 */
export type Cursor = string | undefined;
export type Trail = readonly Cursor[];

export const forward = (trail: Trail, from: Cursor): Trail => [...trail, from];

/** The page before, and the trail that is left. */
export function back(trail: Trail): { to: Cursor; trail: Trail } {
  return { to: trail.at(-1), trail: trail.slice(0, -1) };
}
