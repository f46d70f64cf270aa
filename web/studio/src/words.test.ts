import { expect, test } from "vitest";
import { WORDS } from "./words";

function keys(value: object): string[] {
  return Object.entries(value).flatMap(([key, one]) =>
    typeof one === "object" && one !== null && !Array.isArray(one) ? keys(one).map((sub) => `${key}.${sub}`) : [key],
  );
}

test("both languages say the same things", () => {
  expect(keys(WORDS["pt-BR"]).sort()).toEqual(keys(WORDS.en).sort());
  const same = keys(WORDS.en).filter((key) => {
    const [one, other] = [WORDS.en, WORDS["pt-BR"]].map((words) =>
      key.split(".").reduce<unknown>((found, part) => (found as Record<string, unknown>)[part], words),
    );
    return typeof one === "string" && one === other;
  });
  // The words that are the same in both.
  expect(same.sort()).toEqual(["values.2", "values.4"]);
});
