import { oneOf, type RawSearch, text } from "../services/search";

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;

export interface WebhooksSearch {
  account?: string;
  state?: (typeof DELIVERY_STATES)[number];
  webhook?: string;
  cursor?: string;
}

export function readWebhooksSearch(raw: RawSearch): WebhooksSearch {
  return {
    account: text(raw.account),
    state: oneOf(raw.state, DELIVERY_STATES),
    webhook: text(raw.webhook),
    cursor: text(raw.cursor),
  };
}
