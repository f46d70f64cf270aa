import { expect, test } from "vitest";
import { deadGroupSearch, quoted, searchText } from "./search-text";

test("values are quoted where a blank, a comma or a quote would end them", () => {
  expect(quoted("ana")).toBe("ana");
  expect(quoted("ana maria")).toBe('"ana maria"');
  expect(quoted("a,b")).toBe('"a,b"');
  expect(quoted('say "hi" \\')).toBe('"say \\"hi\\" \\\\"');
  expect(searchText({ tool: "upscale", state: ["failed", "cancelled"], pool: undefined, plan: null })).toBe(
    "tool:upscale state:failed,cancelled",
  );
});

test("a group of dead letters is found by the pieces that its errors share", () => {
  expect(deadGroupSearch({ tool: "upscale", error: "the provider timed out after … s" })).toBe(
    'dead:yes tool:upscale error:"the provider timed out after"',
  );
  expect(deadGroupSearch({ tool: "a b", error: "job … of … failed: no memory" })).toBe(
    'dead:yes tool:"a b" error:job error:"failed: no memory"',
  );
  expect(deadGroupSearch({ tool: "upscale", error: "" })).toBe("dead:yes tool:upscale");
});

test("only the four longest pieces are asked for, in their order", () => {
  const error = "aaaa … bb1 … cccccc … ddddd … eeeeeee";
  expect(deadGroupSearch({ tool: "t", error })).toBe(
    "dead:yes tool:t error:aaaa error:cccccc error:ddddd error:eeeeeee",
  );
});
