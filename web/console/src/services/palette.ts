// What the command palette offers for a text. Pure: the names of accounts and tools come in from outside.
import type { IconName } from "../components/Icon";
import { PAGES, type PageLink } from "../pages";
import { quoted } from "./search-text";

export type Offer =
  | { kind: "page"; key: string; icon: IconName; title: string; note: string; to: PageLink["to"] }
  | { kind: "job"; key: string; icon: IconName; title: string; note: string; job: string }
  | { kind: "account"; key: string; icon: IconName; title: string; note: string; account: string }
  | { kind: "search"; key: string; icon: IconName; title: string; note: string; search: string }
  | { kind: "theme"; key: string; icon: IconName; title: string; note: string; theme: "light" | "dark" | "system" };

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

export const isJobId = (text: string): boolean => UUID.test(text.trim());

/** The id in the form that addresses have: lower case, with hyphens. */
export function jobIdOf(text: string): string {
  const hex = text.trim().toLowerCase().replaceAll("-", "");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

interface Known {
  accounts: readonly string[];
  tools: readonly string[];
}

export function offersFor(text: string, known: Known): Offer[] {
  const asked = text.trim();
  if (isJobId(asked)) {
    const job = jobIdOf(asked);
    return [{ kind: "job", key: job, icon: "jobs", title: `Open job ${job}`, note: "Job", job }];
  }
  const offers: Offer[] = ranked(PAGES, asked, (page) => page.title).map((page) => ({
    kind: "page",
    key: page.to,
    icon: page.icon,
    title: page.title,
    note: `Page · ${page.key}`,
    to: page.to,
  }));
  if (asked !== "") {
    for (const account of known.accounts.slice(0, 6)) {
      offers.push({
        kind: "account",
        key: `account ${account}`,
        icon: "accounts",
        title: account,
        note: "Account",
        account,
      });
    }
    for (const tool of ranked(known.tools, asked, (name) => name).slice(0, 4)) {
      const search = `tool:${quoted(tool)}`;
      offers.push({
        kind: "search",
        key: `tool ${tool}`,
        icon: "tools",
        title: `Jobs of ${tool}`,
        note: "Search",
        search,
      });
    }
    for (const theme of ranked(["light", "dark", "system"] as const, asked, (name) => `theme ${name}`)) {
      const icon = theme === "light" ? "sun" : theme === "dark" ? "moon" : "system";
      offers.push({ kind: "theme", key: `theme ${theme}`, icon, title: `Theme: ${theme}`, note: "Look", theme });
    }
    offers.push({
      kind: "search",
      key: "search",
      icon: "search",
      title: `Search jobs for ${asked}`,
      note: "Search",
      search: asked,
    });
  }
  return offers;
}

/** Those whose words begin as was typed come first, then those that contain it. */
function ranked<Item>(items: readonly Item[], asked: string, nameOf: (item: Item) => string): Item[] {
  if (asked === "") return [...items];
  const wanted = asked.toLowerCase();
  const rank = (item: Item): number => {
    const name = nameOf(item).toLowerCase();
    if (name.startsWith(wanted)) return 0;
    if (name.split(/[\s_-]+/).some((word) => word.startsWith(wanted))) return 1;
    return name.includes(wanted) ? 2 : 3;
  };
  return items
    .map((item) => ({ item, rank: rank(item) }))
    .filter((one) => one.rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .map((one) => one.item);
}
