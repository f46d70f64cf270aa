import { type RawSearch, text } from "../services/search";

export interface AccountSearch {
  cursor?: string;
}

export function readAccountSearch(raw: RawSearch): AccountSearch {
  return { cursor: text(raw.cursor) };
}
