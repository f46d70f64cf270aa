import { type RawSearch, text } from "../services/search";

export interface WorkersSearch {
  cursor?: string;
}

export function readWorkersSearch(raw: RawSearch): WorkersSearch {
  return { cursor: text(raw.cursor) };
}
