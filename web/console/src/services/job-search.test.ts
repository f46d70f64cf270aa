import { expect, test } from "vitest";
import { accept, complete, partAt, partsOf, qualifierOf, typedAccount, withQualifier } from "./job-search";
import type { SearchWords } from "./shapes";

const WORDS: SearchWords = {
  tools: ["upscale", "upload", "video clip"],
  pools: ["gpu"],
  plans: ["free", "pro"],
  states: ["queued", "running", "failed"],
  providers: [],
};

const labels = (text: string, accounts: string[] = []) =>
  complete(text, text.length, WORDS, accounts).options.map((one) => one.label);

test("blanks separate the parts of a search, quotes hold them together", () => {
  expect(partsOf('tool:up  error:"timed \\" out" word')).toEqual([
    { from: 0, to: 7, name: "tool", value: "up" },
    { from: 9, to: 29, name: "error", value: '"timed \\" out"' },
    { from: 30, to: 34, name: "", value: "word" },
  ]);
  expect(partsOf('error:"not closed')).toHaveLength(1);
  expect(partsOf("   ")).toEqual([]);
});

test("names complete with a colon, and all are offered where nothing is typed", () => {
  expect(labels("st")).toEqual(["state:", "stuck:"]);
  expect(labels("")[0]).toBe("state:");
  expect(labels("tool:upscale ")).toContain("state:");
  expect(labels("nothing-like-it")).toEqual([]);
});

test("values complete after the colon and after a comma, without those that stand there", () => {
  expect(labels("tool:up")).toEqual(["upscale", "upload"]);
  expect(labels("state:failed,")).toEqual(["queued", "running"]);
  expect(labels("dead:")).toEqual(["yes", "no"]);
  expect(labels("account:a", ["ana", "bruno"])).toEqual(["ana"]);
  expect(labels("error:tim")).toEqual([]);
});

test("a value that has a blank is written in quotes", () => {
  const text = "tool:vid";
  const completion = complete(text, text.length, WORDS);
  const option = completion.options[0];
  expect(option?.label).toBe("video clip");
  expect(accept(text, completion, option?.insert ?? "")).toEqual({ text: 'tool:"video clip" ', caret: 18 });
});

test("what is accepted replaces the part under the caret only", () => {
  const text = "sta tool:upscale";
  const completion = complete(text, 3, WORDS);
  expect(accept(text, completion, "state:")).toEqual({ text: "state: tool:upscale", caret: 6 });
  const middle = "state:fa,queued tool:upscale";
  const inside = complete(middle, 8, WORDS);
  expect(accept(middle, inside, inside.options[0]?.insert ?? "").text).toBe("state:failed,queued tool:upscale");
});

test("the beginning of an account's name is known while it is typed", () => {
  expect(typedAccount("account:an", 10)).toBe("an");
  expect(typedAccount("account:ana,br", 14)).toBe("br");
  expect(typedAccount("tool:an", 7)).toBeNull();
});

test("a position of the server, counted from 1, marks the part that is wrong", () => {
  const text = "tool:upscale state:faild since:1h";
  expect(partAt(text, 14)).toEqual({ before: "tool:upscale ", wrong: "state:faild", after: " since:1h" });
  expect(partAt(text, 999).wrong).toBe("");
  expect(partAt("", 1)).toEqual({ before: "", wrong: "", after: "" });
});

test("a quick filter sets its qualifier, replaces it, and takes it away", () => {
  expect(withQualifier("tool:upscale state:queued", "state", "failed")).toBe("tool:upscale state:failed");
  expect(withQualifier("state:failed", "state", null)).toBe("");
  expect(qualifierOf('error:"a b" state:failed', "state")).toBe("failed");
});
