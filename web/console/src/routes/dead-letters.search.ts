import { type RawSearch, text } from "../services/search";

export interface DeadLettersSearch {
  cursor?: string;
  group?: string;
}

export function readDeadLettersSearch(raw: RawSearch): DeadLettersSearch {
  return { cursor: text(raw.cursor), group: text(raw.group) };
}
