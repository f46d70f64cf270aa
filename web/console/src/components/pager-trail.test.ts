import { expect, test } from "vitest";
import { back, forward, type Trail } from "./pager-trail";

test("back leads through the pages that came before, then to the first", () => {
  let trail: Trail = [];
  trail = forward(trail, undefined);
  trail = forward(trail, "b");
  let step = back(trail);
  expect(step.to).toBe("b");
  step = back(step.trail);
  expect(step).toEqual({ to: undefined, trail: [] });
});

test("a page opened from a shared address goes back to the first", () => {
  expect(back([])).toEqual({ to: undefined, trail: [] });
});
