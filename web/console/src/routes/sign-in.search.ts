import { type RawSearch, text } from "../services/search";

export interface SignInSearch {
  /** The page of the console to open afterwards. */
  back?: string;
}

/** Only a path of this console is taken: an address of another site must not be where a sign-in leads. */
export function readSignInSearch(raw: RawSearch): SignInSearch {
  const back = text(raw.back);
  return { back: back && /^\/(?![/\\])/.test(back) ? back : undefined };
}
