import { type RawSearch, text } from "../services/search";

export interface KeysSearch {
  cursor?: string;
}

export function readKeysSearch(raw: RawSearch): KeysSearch {
  return { cursor: text(raw.cursor) };
}
