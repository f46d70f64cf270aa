// What the search box of the jobs page knows of the search language: where the parts of a text are, and what could be
// written next. Whether a text is right only the server says, with the position of what is wrong.
import { quoted } from "./search-text";
import type { SearchWords } from "./shapes";

export interface Part {
  /** Where it begins and ends in the text. */
  from: number;
  to: number;
  /** The qualifier, without its colon; empty for a bare word. */
  name: string;
  /** What follows the colon, as it was typed. */
  value: string;
}

/** The parts of a text. Blanks separate them; quotes hold a value together, and a backslash in quotes one character. */
export function partsOf(text: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  while (at < text.length) {
    if (/\s/.test(text[at] ?? "")) {
      at++;
      continue;
    }
    const from = at;
    let isQuoted = false;
    while (at < text.length && (isQuoted || !/\s/.test(text[at] ?? ""))) {
      if (text[at] === '"') isQuoted = !isQuoted;
      else if (isQuoted && text[at] === "\\") at++;
      at++;
    }
    const to = Math.min(at, text.length);
    const whole = text.slice(from, to);
    const named = /^([A-Za-z_]+):/.exec(whole);
    parts.push({
      from,
      to,
      name: named?.[1]?.toLowerCase() ?? "",
      value: named ? whole.slice(named[0].length) : whole,
    });
  }
  return parts;
}

/** Each qualifier and what it means, in the order in which they are offered. */
export const QUALIFIERS: Record<string, string> = {
  state: "queued, running, completed, failed, cancelled",
  tool: "the kind of job",
  account: "who pays",
  since: "submitted after: 1h, 7d, 2026-11-16",
  until: "submitted before",
  error: 'words of the error: "timed out"',
  dead: "yes: dead letters",
  stuck: "yes: their lease ran out",
  plan: "the account's plan at submit",
  pool: "where it runs",
  session: "the page's session",
  batch: "jobs submitted together",
  key: "submitted with this API key",
  correlation: "the caller's own id",
};

const AGES = ["15m", "1h", "6h", "24h", "7d", "30d"];

export interface Completion {
  /** What is replaced in the text. */
  from: number;
  to: number;
  options: { insert: string; label: string; note: string }[];
}

/** What could stand where the caret is. Names end with a colon and go on; values end with a blank. */
export function complete(
  text: string,
  caret: number,
  words: SearchWords,
  accounts: readonly string[] = [],
): Completion {
  const part = partsOf(text).find((one) => one.from <= caret && caret <= one.to);
  if (!part || part.name === "") {
    const from = part?.from ?? caret;
    const typed = text.slice(from, caret).toLowerCase();
    const options = Object.entries(QUALIFIERS)
      .filter(([name]) => name.startsWith(typed))
      .map(([name, note]) => ({ insert: `${name}:`, label: `${name}:`, note }));
    return { from, to: part?.to ?? caret, options };
  }
  const begin = part.from + part.name.length + 1;
  if (caret < begin) return { from: caret, to: caret, options: [] };
  // Values are separated by commas outside quotes; the one under the caret is completed.
  let from = begin;
  let isQuoted = false;
  for (let at = begin; at < caret; at++) {
    if (text[at] === '"') isQuoted = !isQuoted;
    else if (text[at] === "," && !isQuoted) from = at + 1;
  }
  const end = text.slice(caret, part.to).search(",");
  const to = end < 0 ? part.to : caret + end;
  const typed = text.slice(from, caret).replaceAll('"', "").toLowerCase();
  const earlier = new Set(text.slice(begin, from).split(","));
  const options = valuesOf(part.name, words, accounts)
    .filter((value) => value.toLowerCase().startsWith(typed) && !earlier.has(value))
    .slice(0, 12)
    .map((value) => ({ insert: `${quoted(value)}${to === part.to ? " " : ""}`, label: value, note: "" }));
  return { from, to, options };
}

function valuesOf(name: string, words: SearchWords, accounts: readonly string[]): readonly string[] {
  switch (name) {
    case "tool":
      return words.tools;
    case "state":
      return words.states;
    case "plan":
      return words.plans;
    case "pool":
      return words.pools;
    case "account":
      return accounts;
    case "dead":
    case "stuck":
      return ["yes", "no"];
    case "since":
    case "until":
      return AGES;
    default:
      return [];
  }
}

/** The beginning of an account's name that is being typed, to ask the server for names; null elsewhere. */
export function typedAccount(text: string, caret: number): string | null {
  const part = partsOf(text).find((one) => one.from <= caret && caret <= one.to);
  if (part?.name !== "account") return null;
  return (
    text
      .slice(part.from + 8, caret)
      .split(",")
      .at(-1)
      ?.replaceAll('"', "") ?? ""
  );
}

/** The text with an option in place, and where the caret stands then. */
export function accept(text: string, completion: Completion, insert: string): { text: string; caret: number } {
  const after = text.slice(completion.to);
  const written = insert.endsWith(" ") && after.startsWith(" ") ? insert.slice(0, -1) : insert;
  return { text: text.slice(0, completion.from) + written + after, caret: completion.from + written.length };
}

/** The part of a text that a server's position (counted from 1) points at. */
export function partAt(text: string, position: number): { before: string; wrong: string; after: string } {
  const at = Math.max(0, Math.min(position - 1, text.length));
  const part = partsOf(text).find((one) => one.from <= at && at < one.to);
  const from = part?.from ?? at;
  const to = part?.to ?? Math.min(at + 1, text.length);
  return { before: text.slice(0, from), wrong: text.slice(from, to), after: text.slice(to) };
}

/** The text with a qualifier set, added or taken away: what the quick filters do. */
export function withQualifier(text: string, name: string, value: string | null): string {
  const others = partsOf(text)
    .filter((part) => part.name !== name)
    .map((part) => text.slice(part.from, part.to));
  if (value !== null) others.push(`${name}:${value}`);
  return others.join(" ");
}

export function qualifierOf(text: string, name: string): string | null {
  return partsOf(text).find((part) => part.name === name)?.value ?? null;
}
