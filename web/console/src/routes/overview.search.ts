import { oneOf, type RawSearch } from "../services/search";
import type { Range } from "../services/shapes";

export const RANGES: readonly Range[] = ["1h", "6h", "24h", "7d", "30d"];

export interface OverviewSearch {
  range?: Range;
  /** What the lines of the depth chart stand for. */
  by?: "plan" | "tool";
}

export function readOverviewSearch(raw: RawSearch): OverviewSearch {
  return { range: oneOf(raw.range, RANGES), by: oneOf(raw.by, ["plan", "tool"]) };
}
