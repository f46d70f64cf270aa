import { type RawSearch, text } from "../services/search";

export interface JobsSearch {
  /** The text of the search box, such as `tool:upscale state:failed since:1h`. */
  search?: string;
}

export function readJobsSearch(raw: RawSearch): JobsSearch {
  return { search: text(raw.search) };
}
