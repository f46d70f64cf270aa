import { type RawSearch, text } from "../services/search";

export interface WebhooksSearch {
  state?: string;
  webhook?: string;
  cursor?: string;
}

export function readWebhooksSearch(raw: RawSearch): WebhooksSearch {
  return { state: text(raw.state), webhook: text(raw.webhook), cursor: text(raw.cursor) };
}
