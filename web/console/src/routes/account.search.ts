import { oneOf, type RawSearch, text } from "../services/search";

export const ACCOUNT_TABS = ["ledger", "files", "webhooks", "keys"] as const;

export interface AccountSearch {
  tab?: (typeof ACCOUNT_TABS)[number];
  cursor?: string;
}

export function readAccountSearch(raw: RawSearch): AccountSearch {
  return { tab: oneOf(raw.tab, ACCOUNT_TABS), cursor: text(raw.cursor) };
}
