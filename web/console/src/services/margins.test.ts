import { expect, test } from "vitest";
import { byTool } from "./margins";

test("margins are added up by tool, the most expensive first", () => {
  const line = { day: "2026-11-15", plan: "pro", jobs: 2, credits: 8, provider_cost: 0.5 };
  expect(
    byTool([
      { ...line, tool: "a" },
      { ...line, tool: "b", provider_cost: 3 },
      { ...line, tool: "a" },
    ]),
  ).toEqual([
    { tool: "b", jobs: 2, credits: 8, cost: 3 },
    { tool: "a", jobs: 4, credits: 16, cost: 1 },
  ]);
});
