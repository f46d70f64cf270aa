// Times as people take them: estimates rounded up, and never more exact than they are.

export interface Estimate {
  text: string;
  /** Whether it is longer than the text says. */
  isMore: boolean;
}

const MOST_MINUTES = 10;

/** Up to the next 10 seconds, then to the next minute; beyond 10 minutes only that. Null where nothing is known. */
export function roundEstimate(seconds: number | null): Estimate | null {
  if (seconds === null || !Number.isFinite(seconds)) return null;
  const tens = Math.max(10, Math.ceil(seconds / 10) * 10);
  if (tens < 60) return { text: `${tens} s`, isMore: false };
  const minutes = Math.ceil(seconds / 60);
  if (minutes > MOST_MINUTES) return { text: `${MOST_MINUTES} min`, isMore: true };
  return { text: `${minutes} min`, isMore: false };
}

/** Time that has passed: whole seconds, then minutes and seconds. */
export function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** "20–30 s", "1–2 min", or "40 s–2 min" where only one of them is more than a minute. */
export function formatRange([from, to]: readonly [number, number]): string {
  const high = part(to, Math.ceil);
  const low = part(from, Math.floor);
  if (low.count === high.count && low.unit === high.unit) return `${high.count} ${high.unit}`;
  return `${low.count}${low.unit === high.unit ? "" : ` ${low.unit}`}–${high.count} ${high.unit}`;
}

function part(seconds: number, round: (value: number) => number): { count: number; unit: "s" | "min" } {
  if (seconds > 60) return { count: round(seconds / 60), unit: "min" };
  return { count: Math.max(1, round(seconds)), unit: "s" };
}

/** Whether a run takes longer than such runs do. */
export function isLate(seconds: number, usual: readonly [number, number] | null): boolean {
  return usual !== null && seconds > Math.max(usual[1] * 1.5, usual[1] + 5);
}
