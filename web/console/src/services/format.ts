/** How numbers and times read. Pure: the time that is now comes in from outside. */
const LOCALE = "en";
const whole = new Intl.NumberFormat(LOCALE);
const short = new Intl.NumberFormat(LOCALE, { notation: "compact", maximumFractionDigits: 1 });
const decimal = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 4 });

export const formatCount = (value: number): string => whole.format(value);
export const formatShort = (value: number): string =>
  Math.abs(value) < 10_000 ? whole.format(value) : short.format(value);
export const formatDecimal = (value: number): string => decimal.format(value);

/** "10,000+" where counting stopped. */
export const formatCapped = (count: number, isExact: boolean): string => `${whole.format(count)}${isExact ? "" : "+"}`;

/** "1 job", "2 jobs". */
export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${whole.format(count)} ${count === 1 ? one : many}`;

/** "4 credits"; with a sign "+4 credits". A minus sign is U+2212, as wide as a plus. */
export function formatCredits(credits: number, withSign = false): string {
  const sign = credits < 0 ? "−" : withSign && credits > 0 ? "+" : "";
  return `${sign}${plural(Math.abs(credits), "credit")}`;
}

const SIZES = ["B", "kB", "MB", "GB", "TB"] as const;

export function formatBytes(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < SIZES.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${SIZES[unit]}`;
}

/** "0.4 s", "18 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". A clock that ran backwards gives "0 s", never a minus. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, seconds);
  // What rounds up to the next size is written as that size: never "10.0 s" beside "10 s".
  if (s < 0.095) return s === 0 ? "0 s" : `${Math.max(0.01, s).toFixed(2)} s`;
  if (s < 9.95) return `${Number(s.toFixed(1))} s`;
  if (s < 60) return `${Math.max(10, Math.floor(s))} s`;
  const [big, small, unit, rest] =
    s < 3600 ? [60, 1, "min", "s"] : s < 86_400 ? [3600, 60, "h", "min"] : [86_400, 3600, "d", "h"];
  const count = Math.floor(s / Number(big));
  const left = Math.floor((s - count * Number(big)) / Number(small));
  return left === 0 ? `${count} ${unit}` : `${count} ${unit} ${left} ${rest}`;
}

/** "just now", "12 s ago", "in 3 min". Within two seconds of now it is now: clocks differ by that much. */
export function formatAgo(at: Date, now: Date): string {
  const seconds = (now.getTime() - at.getTime()) / 1000;
  const size = Math.abs(seconds);
  if (size < 2) return "just now";
  const words =
    size < 60
      ? `${Math.floor(size)} s`
      : size < 3600
        ? `${Math.floor(size / 60)} min`
        : size < 86_400
          ? `${Math.floor(size / 3600)} h`
          : `${Math.floor(size / 86_400)} d`;
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

/** "in 12 s" of what is still to come; "now" of what is due. */
export const formatDue = (at: Date, now: Date): string =>
  at.getTime() - now.getTime() < 2_000 ? "now" : formatAgo(at, now);

/** "16 Nov 2026, 14:05:09 GMT+1 · 13:05:09 UTC" */
export function formatFull(at: Date): string {
  const local = new Intl.DateTimeFormat(LOCALE, {
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  }).format(at);
  return `${local} · ${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** "14:05:09" in the reader's zone. */
export const formatClock = (at: Date): string =>
  new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(
    at,
  );

/**
 * An id by its last eight characters. Its first ones are the time: those of a minute have them in common. The whole id
 * stays in the title and the copy.
 */
export const shortId = (id: string): string => (id.length > 12 ? `…${id.slice(-8)}` : id);

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;

/** A text with its ids cut short. */
export const shortIds = (text: string): string => text.replace(UUID, shortId);
