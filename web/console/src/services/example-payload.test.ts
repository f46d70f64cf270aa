import { expect, test } from "vitest";
import { examplePayload, shellQuoted } from "./example-payload";

test("a payload has a value for every field that is required, and for no other", () => {
  const schema = {
    properties: {
      prompt: { type: "string" },
      images: { type: "integer", minimum: 2 },
      quality: { enum: ["high", "low"] },
      tags: { type: "array", items: { type: "string" } },
      seed: { type: "integer" },
    },
    required: ["prompt", "images", "quality", "tags"],
  };
  expect(examplePayload(schema)).toEqual({
    prompt: "a lighthouse",
    images: 2,
    quality: "high",
    tags: ["a lighthouse"],
  });
  expect(examplePayload({ type: "object" })).toEqual({});
});

test("a tool that needs a file has no payload to show", () => {
  const file = { type: "string", format: "ficha-file" };
  expect(examplePayload({ properties: { image: file }, required: ["image"] })).toBeNull();
  expect(examplePayload({ properties: { images: { type: "array", items: file } }, required: ["images"] })).toBeNull();
});

test("a quote in a value does not end the shell's word", () => {
  expect(shellQuoted(`{"a": "it's"}`)).toBe(`'{"a": "it'\\''s"}'`);
});
