import type { Tool } from "@ficha/client";
import { expect, test } from "vitest";
import { askedIn, cardPrice, fieldsOf, filesIn, inOrder, inputsIn, suitable } from "./tools";

const UPSCALER = {
  name: "image_upscaler",
  price: null,
  schema: {
    properties: {
      image: { format: "ficha-file", type: "string", title: "Image" },
      scale: { enum: [2, 4], default: 2, type: "integer", title: "Scale" },
    },
    required: ["image"],
  },
} as unknown as Tool;
const FREESTYLE = {
  name: "freestyle",
  price: 4,
  schema: {
    properties: {
      prompt: { type: "string", minLength: 1, maxLength: 500, title: "Prompt" },
      images: { type: "integer", minimum: 1, maximum: 8, default: 1 },
    },
    required: ["prompt"],
  },
} as unknown as Tool;

test("a tool's fields come from its schema", () => {
  const [image, scale] = fieldsOf(UPSCALER);
  expect(image).toMatchObject({ name: "image", kind: "file", isRequired: true });
  expect(scale).toMatchObject({ name: "scale", kind: "choice", choices: [2, 4], initial: 2, isRequired: false });
  const [prompt, images] = fieldsOf(FREESTYLE);
  expect(prompt).toMatchObject({ kind: "text", most: 500, isRequired: true });
  expect(images).toMatchObject({ kind: "number", title: "images", least: 1, most: 8, initial: 1 });
  expect(fieldsOf({ name: "bare", schema: {} } as unknown as Tool)).toEqual([]);
});

test("a price that depends on the payload is shown as the least", () => {
  expect(cardPrice(FREESTYLE)).toEqual({ cost: 4, isLeast: false });
  expect(cardPrice(UPSCALER)).toEqual({ cost: 6, isLeast: true });
  expect(cardPrice({ name: "new", price: null } as unknown as Tool)).toBeNull();
});

test("tools that the page does not know come last", () => {
  const tools = [{ name: "new" }, FREESTYLE, UPSCALER] as Tool[];
  expect(inOrder(tools).map((tool) => tool.name)).toEqual(["image_upscaler", "freestyle", "new"]);
});

test("files of results and payloads are found, and nothing else", () => {
  const file = { file: "f1", name: "a.png", media_type: "image/png" };
  expect(filesIn({ output: 1, files: [file, null, { name: "b" }] })).toEqual([file]);
  for (const nothing of [null, undefined, "text", { files: "none" }, []]) expect(filesIn(nothing)).toEqual([]);
  const fields = fieldsOf(UPSCALER);
  expect(inputsIn({ image: "f1", scale: 2 }, fields)).toEqual([{ field: "image", file: "f1" }]);
  expect(inputsIn({ image: { file: "f2" } }, fields)).toEqual([{ field: "image", file: "f2" }]);
  expect(inputsIn(null, fields)).toEqual([]);
});

test("a split request has the files of all its jobs, in their order, and was asked for once", () => {
  const [one, two] = ["f1", "f2"].map((file) => ({ file, name: `${file}.png`, media_type: "image/png" }));
  expect(filesIn([{ files: [one] }, null, { files: [two] }])).toEqual([one, two]);
  expect(askedIn([null, { prompt: "a boat", images: 4 }])).toEqual({ prompt: "a boat", images: 4 });
  expect(inputsIn([{ image: "f1" }, { image: "f1" }], fieldsOf(UPSCALER))).toEqual([{ field: "image", file: "f1" }]);
});

test("samples suit the field", () => {
  expect(suitable("video_upscaler", "video")).toEqual(["clip"]);
  expect(suitable("outfit_changer", "outfit")).toEqual(["garment"]);
  expect(suitable("outfit_changer", "image")).toEqual(["person"]);
  expect(suitable("product", "image")[0]).toBe("product");
});
