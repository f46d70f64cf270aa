import { type RawSearch, text } from "../services/search";

export interface BatchSearch {
  cursor?: string;
}

export function readBatchSearch(raw: RawSearch): BatchSearch {
  return { cursor: text(raw.cursor) };
}
