import { expect, test } from "vitest";
import { emptyOverview, fullOverview } from "../../fake/data";
import {
  axisWords,
  costPer100,
  latest,
  linesBy,
  lonely,
  rangeTotals,
  searchForReason,
  secondsOnAxis,
  share,
  spoken,
  stacked,
  stepWords,
  totals,
  WHOLE_STEPS,
} from "./figures";

const SERIES = [
  { plan: "free", tool: "upscale", values: [1, 2, 3] },
  { plan: "free", tool: "video", values: [10, 0, 0] },
  { plan: "pro", tool: "video", values: [5, 5, 5] },
];

test("lines add up what has the same plan or tool, the largest first", () => {
  expect(linesBy(SERIES, "plan", 3)).toEqual([
    { name: "free", values: [11, 2, 3] },
    { name: "pro", values: [5, 5, 5] },
  ]);
  expect(linesBy(SERIES, "tool", 3).map((line) => line.name)).toEqual(["video", "upscale"]);
  expect(totals(SERIES, 3)).toEqual([16, 7, 8]);
});

test("names beyond the most become others, and nothing is lost", () => {
  const many = Array.from({ length: 9 }, (_, index) => ({ plan: "p", tool: `t${index}`, values: [index, 1] }));
  const lines = linesBy(many, "tool", 2, 4);
  expect(lines.map((line) => line.name)).toEqual(["t8", "t7", "t6", "others"]);
  expect(lines.reduce((sum, line) => sum + (line.values[0] ?? 0), 0)).toBe(36);
});

test("a pile adds each line to those below it", () => {
  expect(
    stacked([
      { name: "a", values: [1, 2] },
      { name: "b", values: [3, null] },
    ]),
  ).toEqual([
    { name: "a", values: [1, 2] },
    { name: "b", values: [4, 2] },
  ]);
});

test("a chart says its newest, highest and lowest value", () => {
  const times = ["2026-11-16T10:00:00", "2026-11-16T10:05:00", "2026-11-16T10:10:00"];
  expect(spoken("Waiting jobs", [4, 88, 31], times, String)).toBe("Waiting jobs: now 31, most 88 at 10:05, least 4.");
  expect(spoken("Waiting jobs", [4, null, null], times, String)).toBe("Waiting jobs: 4 throughout.");
  expect(spoken("Waiting jobs", [null, null], times, String)).toBe("Waiting jobs: no figures yet.");
  expect(latest([1, null])).toBe(1);
});

test("a failure's reason leads to a search for its longest piece", () => {
  expect(searchForReason("job … timed out after … s", "24h")).toBe('error:"timed out after" state:failed since:24h');
  expect(searchForReason('say "no"', "1h")).toBe('error:"say \\"no\\"" state:failed since:1h');
  expect(searchForReason("…", "1h")).toBe("state:failed since:1h");
});

test("totals and margin come from the same arrays, and an empty range has none", () => {
  const overview = fullOverview("1h", Date.UTC(2026, 10, 16, 12));
  const sums = rangeTotals(overview);
  expect(sums.running).toBe(11);
  expect(sums.slots).toBeNull();
  expect(costPer100(overview)).toBeCloseTo((100 * sums.providerCost) / (sums.charged - sums.refunded));
  expect(costPer100(emptyOverview("1h", Date.now()))).toBeNull();
});

test("shares and ticks read well", () => {
  expect(share(3, 125)).toBe("2.4 %");
  expect(share(0, 10)).toBe("0 %");
  expect(share(1, 0)).toBeNull();
  expect([0, 0.002, 75, 150, 9000].map(secondsOnAxis)).toEqual(["0 s", "2 ms", "75 s", "2.5 min", "2.5 h"]);
  expect([60, 300, 3600].map(stepWords)).toEqual(["minute", "5 min", "hour"]);
});

test("the time axis has clocks as the rest of the page, and days by name", () => {
  expect(axisWords(new Date(2026, 10, 17, 4, 30), 900)).toBe("04:30");
  expect(axisWords(new Date(2026, 10, 17, 0, 0), 900)).toBe("17 Nov");
  expect(axisWords(new Date(2026, 10, 11, 12, 0), 86_400)).toBe("11 Nov");
});

test("what is counted has whole steps on its axis", () => {
  expect(WHOLE_STEPS.slice(0, 5)).toEqual([1, 2, 5, 10, 20]);
});

test("a value without neighbours is drawn as a point", () => {
  expect(lonely([1, null, 2, 3, null, 4])).toEqual([0, 5]);
});
