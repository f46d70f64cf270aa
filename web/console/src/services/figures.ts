// Turns the overview's arrays into what charts draw and screen readers hear. Pure.
import { formatClock, formatCount, formatDuration } from "./format";
import { quoted } from "./search-text";
import type { Overview, Range, Series } from "./shapes";

export const RANGE_WORDS: Record<Range, string> = {
  "1h": "the last hour",
  "6h": "the last 6 hours",
  "24h": "the last 24 hours",
  "7d": "the last 7 days",
  "30d": "the last 30 days",
};

export interface NamedValues {
  name: string;
  values: (number | null)[];
}

const OTHERS = "others";

/** One line per plan or tool: the values of a name are added up; beyond `most` names the smallest become "others". */
export function linesBy(series: readonly Series[], by: "plan" | "tool", length: number, most = 6): NamedValues[] {
  const lines = new Map<string, number[]>();
  for (const one of series) {
    const line = lines.get(one[by]) ?? new Array<number>(length).fill(0);
    for (let index = 0; index < length; index++) line[index] = (line[index] ?? 0) + (one.values[index] ?? 0);
    lines.set(one[by], line);
  }
  const sorted = [...lines]
    .map(([name, values]) => ({ name, values }))
    .sort((a, b) => total(b.values) - total(a.values));
  if (sorted.length <= most) return sorted;
  const rest = new Array<number>(length).fill(0);
  for (const line of sorted.slice(most - 1)) {
    for (const [index, value] of line.values.entries()) rest[index] = (rest[index] ?? 0) + value;
  }
  return [...sorted.slice(0, most - 1), { name: OTHERS, values: rest }];
}

/** All plans and tools together. */
export function totals(series: readonly Series[], length: number): number[] {
  const sums = new Array<number>(length).fill(0);
  for (const one of series) {
    for (let index = 0; index < length; index++) sums[index] = (sums[index] ?? 0) + (one.values[index] ?? 0);
  }
  return sums;
}

export const total = (values: readonly (number | null)[]): number =>
  values.reduce<number>((sum, value) => sum + (value ?? 0), 0);

/** Each line with all those below it added: the last is the height of the pile. */
export function stacked(lines: readonly NamedValues[]): NamedValues[] {
  const below: number[] = [];
  return lines.map((line) => ({
    name: line.name,
    values: line.values.map((value, index) => {
      below[index] = (below[index] ?? 0) + (value ?? 0);
      return below[index] ?? 0;
    }),
  }));
}

/** The newest value that is known. */
export function latest(values: readonly (number | null)[]): number | null {
  for (let index = values.length - 1; index >= 0; index--) {
    const value = values[index];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

type Format = (value: number) => string;

/** "Waiting jobs: now 31, most 88 at 14:05, least 4." Nothing known: "Waiting jobs: no figures yet." */
export function spoken(
  name: string,
  values: readonly (number | null)[],
  times: readonly string[],
  format: Format,
): string {
  let most: number | null = null;
  let least: number | null = null;
  let mostAt = 0;
  values.forEach((value, index) => {
    if (value === null) return;
    if (most === null || value > most) {
      most = value;
      mostAt = index;
    }
    if (least === null || value < least) least = value;
  });
  const now = latest(values);
  if (now === null || most === null || least === null) return `${name}: no figures yet.`;
  if (most === least) return `${name}: ${format(now)} throughout.`;
  const when = times[mostAt];
  const at = when === undefined ? "" : ` at ${momentWords(new Date(when), times)}`;
  return `${name}: now ${format(now)}, most ${format(most)}${at}, least ${format(least)}.`;
}

/** "14:05" within two days, else "12 Nov, 14:05". */
function momentWords(at: Date, times: readonly string[]): string {
  const first = times[0];
  const isLong = first !== undefined && Date.parse(times.at(-1) ?? first) - Date.parse(first) > 2 * 86_400_000;
  const clock = formatClock(at).slice(0, 5);
  return isLong ? `${dayWords(at)}, ${clock}` : clock;
}

const dayWords = (at: Date): string => `${at.getDate()} ${MONTHS[at.getMonth()]}`;

/** A tick of the time axis: "04:30"; "12 Nov" at midnight, and where a step is a day or more. */
export function axisWords(at: Date, step: number): string {
  const clock = formatClock(at).slice(0, 5);
  return step >= 86_400 || clock === "00:00" ? dayWords(at) : clock;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export interface Totals {
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
  charged: number;
  refunded: number;
  granted: number;
  providerCost: number;
  waiting: number;
  running: number;
  slots: number | null;
}

/** The figures of the whole range, and those of now from the pools. */
export function rangeTotals(overview: Overview): Totals {
  const sum = (series: readonly Series[]) => series.reduce((all, one) => all + total(one.values), 0);
  const slots = overview.pools.map((pool) => pool.slots);
  return {
    submitted: sum(overview.submitted),
    completed: sum(overview.completed),
    failed: sum(overview.failed),
    cancelled: sum(overview.cancelled),
    charged: total(overview.charged),
    refunded: total(overview.refunded),
    granted: total(overview.granted),
    providerCost: total(overview.provider_cost),
    waiting: overview.pools.reduce((all, pool) => all + pool.ready + pool.parked, 0),
    running: overview.pools.reduce((all, pool) => all + pool.busy, 0),
    slots: slots.some((one) => one === null) ? null : slots.reduce<number>((all, one) => all + (one ?? 0), 0),
  };
}

/** "2.4 %", or null where nothing ended. */
export function share(part: number, whole: number): string | null {
  if (whole === 0) return null;
  const percent = (100 * part) / whole;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** What providers took for each 100 credits that were kept: the margin, as far as it is known without a credit's price. */
export function costPer100(overview: Overview): number | null {
  const { charged, refunded, providerCost } = rangeTotals(overview);
  const kept = charged - refunded;
  return kept > 0 ? (100 * providerCost) / kept : null;
}

/** The search that finds jobs of a failure's reason. The server put "…" for numbers and ids: the longest piece is sought. */
export function searchForReason(reason: string, range: Range): string {
  const piece = reason
    .split("…")
    .map((one) => one.trim())
    .reduce((longest, one) => (one.length > longest.length ? one : longest), "");
  const text = piece === "" ? "" : `error:${quoted(piece)} `;
  return `${text}state:failed since:${range}`;
}

export const seconds: Format = (value) => formatDuration(value);
export const count: Format = (value) => formatCount(value);

/** "minute", "hour", "15 min": what a step of the range is called after "per". */
export function stepWords(seconds: number): string {
  return seconds === 60 ? "minute" : seconds === 3600 ? "hour" : seconds === 86_400 ? "day" : formatDuration(seconds);
}

/** "75 s", "5 min", "2.5 h": for the ticks of an axis, which are round numbers. */
export const secondsOnAxis: Format = (value) => {
  if (value > 0 && value < 1) return `${trim(value * 1000)} ms`;
  if (value < 120) return `${trim(value)} s`;
  return value < 7200 ? `${trim(value / 60)} min` : `${trim(value / 3600)} h`;
};

/** Distances between the ticks of what is counted: there is no half of a job. */
export const WHOLE_STEPS: number[] = Array.from({ length: 13 }, (_, power) =>
  [1, 2, 5].map((one) => one * 10 ** power),
).flat();

const trim = (value: number): string => String(Math.round(value * 10) / 10);

/** Values that have no neighbour: a line alone would not show them. */
export function lonely(values: readonly (number | null | undefined)[]): number[] {
  const isNone = (value: number | null | undefined) => value === null || value === undefined;
  return values.flatMap((value, index) =>
    !isNone(value) && isNone(values[index - 1]) && isNone(values[index + 1]) ? [index] : [],
  );
}
