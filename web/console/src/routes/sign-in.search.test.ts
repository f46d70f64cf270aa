import { expect, test } from "vitest";
import { readSignInSearch } from "./sign-in.search";

test("a sign-in leads back to a path of the console and never to another site", () => {
  expect(readSignInSearch({ back: "/jobs?search=state%3Afailed" })).toEqual({ back: "/jobs?search=state%3Afailed" });
  for (const back of ["https://evil.test", "//evil.test", "/\\evil.test", "javascript:alert(1)", "", 7, undefined]) {
    expect(readSignInSearch({ back }).back).toBeUndefined();
  }
});
