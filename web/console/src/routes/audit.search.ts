import { type RawSearch, text } from "../services/search";

export interface AuditSearch {
  target?: string;
  actor?: string;
  cursor?: string;
}

export function readAuditSearch(raw: RawSearch): AuditSearch {
  return { target: text(raw.target), actor: text(raw.actor), cursor: text(raw.cursor) };
}
