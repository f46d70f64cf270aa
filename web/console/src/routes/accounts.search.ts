import { type RawSearch, text } from "../services/search";

export interface AccountsSearch {
  search?: string;
  cursor?: string;
}

export function readAccountsSearch(raw: RawSearch): AccountsSearch {
  return { search: text(raw.search), cursor: text(raw.cursor) };
}
