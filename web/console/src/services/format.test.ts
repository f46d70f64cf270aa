import { describe, expect, test } from "vitest";
import {
  formatAgo,
  formatBytes,
  formatCapped,
  formatCredits,
  formatDue,
  formatDuration,
  formatFull,
  formatShort,
  plural,
  shortId,
  shortIds,
} from "./format";

const NOW = new Date("2026-11-16T14:05:09Z");
const before = (seconds: number) => new Date(NOW.getTime() - seconds * 1000);

test.each([
  [0, "just now"],
  [1.9, "just now"],
  [-1.9, "just now"],
  [2, "2 s ago"],
  [59.9, "59 s ago"],
  [60, "1 min ago"],
  [3599, "59 min ago"],
  [3600, "1 h ago"],
  [86_399, "23 h ago"],
  [86_400, "1 d ago"],
  [-48, "in 48 s"],
  [-7200, "in 2 h"],
])("%d seconds ago is %s", (seconds, words) => {
  expect(formatAgo(before(seconds), NOW)).toBe(words);
});

test.each([
  [90, "now"],
  [0, "now"],
  [-1.9, "now"],
  [-2, "in 2 s"],
  [-7200, "in 2 h"],
])("what was due %d seconds ago is due %s", (seconds, words) => {
  expect(formatDue(before(seconds), NOW)).toBe(words);
});

test.each([
  [0, "0 s"],
  [-5, "0 s"],
  [0.004, "0.01 s"],
  [0.4, "0.4 s"],
  [0.094, "0.09 s"],
  [0.099, "0.1 s"],
  [0.97, "1 s"],
  [2.04, "2 s"],
  [9.81, "9.8 s"],
  [9.96, "10 s"],
  [4, "4 s"],
  [59.9, "59 s"],
  [60, "1 min"],
  [200, "3 min 20 s"],
  [7500, "2 h 5 min"],
  [273_600, "3 d 4 h"],
])("%d seconds last %s", (seconds, words) => {
  expect(formatDuration(seconds)).toBe(words);
});

describe("amounts", () => {
  test("credits have a sign where asked, and one credit is one", () => {
    expect(formatCredits(1)).toBe("1 credit");
    expect(formatCredits(1234)).toBe("1,234 credits");
    expect(formatCredits(4, true)).toBe("+4 credits");
    expect(formatCredits(-4)).toBe("−4 credits");
    expect(formatCredits(0, true)).toBe("0 credits");
  });

  test("a count that stopped says so", () => {
    expect(formatCapped(10_000, false)).toBe("10,000+");
    expect(formatCapped(203, true)).toBe("203");
  });

  test("sizes are short", () => {
    expect(formatBytes(999)).toBe("999 B");
    expect(formatBytes(1000)).toBe("1.0 kB");
    expect(formatBytes(482_113_000)).toBe("482 MB");
    expect(formatShort(9999)).toBe("9,999");
    expect(formatShort(1_234_567)).toBe("1.2M");
    expect(plural(2, "batch", "batches")).toBe("2 batches");
  });
});

test("a whole time has the zone and UTC", () => {
  expect(formatFull(NOW)).toMatch(/2026.*· 2026-11-16 14:05:09 UTC$/);
});

test("an id is known by its end, for its beginning is the time", () => {
  expect(shortId("01a1e501-ea09-7000-aa3e-c76d8cd479d3")).toBe("…8cd479d3");
  expect(shortId("s-12")).toBe("s-12");
  expect(shortIds("job 01a1e501-ea09-7000-aa3e-c76d8cd479d3 of ana")).toBe("job …8cd479d3 of ana");
});
