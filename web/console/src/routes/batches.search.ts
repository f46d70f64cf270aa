import { type RawSearch, text } from "../services/search";

export interface BatchesSearch {
  account?: string;
  cursor?: string;
}

export function readBatchesSearch(raw: RawSearch): BatchesSearch {
  return { account: text(raw.account), cursor: text(raw.cursor) };
}
