import { type RawSearch, text } from "../services/search";

export interface BulkActsSearch {
  act?: string;
  cursor?: string;
}

export function readBulkActsSearch(raw: RawSearch): BulkActsSearch {
  return { act: text(raw.act), cursor: text(raw.cursor) };
}
