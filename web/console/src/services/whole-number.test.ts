import { expect, test } from "vitest";
import { wholeNumber } from "./whole-number";

test.each([
  ["12", 12],
  [" 12 ", 12],
  ["-3", -3],
  ["−3", -3],
  ["+5", 5],
  ["1,200", 1200],
  ["1,200,000", 1_200_000],
  ["", undefined],
  ["1.5", undefined],
  ["1,2", undefined],
  ["1e3", undefined],
  ["12 credits", undefined],
  ["9007199254740993", undefined],
])("%j is read as %j", (text, value) => {
  expect(wholeNumber(text)).toBe(value);
});
