import { describe, expect, test } from "vitest";
import { type Draft, draftOf, fieldErrors, formOf, type JsonSchema, payloadOf } from "./schema-form";

const object = (properties: Record<string, JsonSchema>, required: string[] = []): JsonSchema => ({
  type: "object",
  properties,
  required,
});

function filled(schema: JsonSchema, draft: Record<string, Draft> = {}) {
  const form = formOf(schema);
  return payloadOf(form, { ...(draftOf(form) as Record<string, Draft>), ...draft });
}

const kinds = (schema: JsonSchema): string[] => {
  const form = formOf(schema);
  return form.kind === "group" ? form.fields.map(([, field]) => field.kind) : [];
};

describe("the fields of a schema", () => {
  test("each kind of value has its field", () => {
    const schema = object({
      prompt: { type: "string" },
      images: { type: "integer" },
      lens: { type: "number" },
      flash: { type: "boolean" },
      quality: { enum: ["standard", "high"] },
      image: { type: "string", format: "ficha-file" },
      scenes: { type: "array", items: { type: "string" } },
      camera: { type: "object", properties: { lens: { type: "number" } } },
      extra: {},
      open: { type: "object", additionalProperties: true },
    });
    expect(kinds(schema)).toEqual([
      "text",
      "number",
      "number",
      "boolean",
      "choice",
      "file",
      "list",
      "group",
      "json",
      "json",
    ]);
  });

  test("a reference and a nullable type are followed", () => {
    const form = formOf({
      ...object({ camera: { $ref: "#/$defs/Camera" }, seed: { anyOf: [{ type: "integer" }, { type: "null" }] } }),
      $defs: { Camera: object({ lens: { type: "number" } }) },
    });
    expect(form).toMatchObject({
      fields: [
        ["camera", { kind: "group" }],
        ["seed", { kind: "number", isInteger: true, isNullable: true }],
      ],
    });
  });

  test("a schema that refers to itself ends in a box for JSON", () => {
    const tree = { $ref: "#/$defs/Tree" };
    const form = formOf({ ...object({ tree }), $defs: { Tree: object({ child: tree }) } });
    expect(JSON.stringify(form)).toContain('"kind":"json"');
  });

  test("a choice between several shapes is a box for JSON", () => {
    expect(kinds(object({ what: { anyOf: [{ type: "integer" }, { type: "string" }] } }))).toEqual(["json"]);
  });

  test("title, description and secrets are taken over", () => {
    const schema = object({ key: { type: "string", format: "password", title: "Key", description: "yours" } }, ["key"]);
    expect(formOf(schema)).toMatchObject({
      fields: [["key", { title: "Key", help: "yours", isSecret: true, isRequired: true }]],
    });
  });
});

describe("the payload of a form", () => {
  test("what stands in it at first are the defaults", () => {
    const schema = object({
      scale: { type: "integer", enum: [2, 4], default: 2 },
      prompt: { type: "string", default: "a studio" },
      images: { type: "integer", default: 1 },
      flash: { type: "boolean", default: true },
      tags: { type: "array", items: { type: "string" }, default: ["a", "b"] },
    });
    expect(filled(schema)).toEqual({
      payload: { scale: 2, prompt: "a studio", images: 1, flash: true, tags: ["a", "b"] },
      errors: {},
    });
  });

  test("an optional field that is left empty is left out", () => {
    const schema = object({
      a: { type: "string" },
      b: { type: "integer" },
      c: { type: "boolean" },
      d: { enum: ["x", "y"] },
      e: { type: "array", items: { type: "string" } },
      f: object({ g: { type: "string" } }),
    });
    expect(filled(schema)).toEqual({ payload: {}, errors: {} });
  });

  test("a required field that is empty is told by its name", () => {
    const schema = object(
      {
        prompt: { type: "string", minLength: 1 },
        images: { type: "integer" },
        image: { type: "string", format: "ficha-file" },
        quality: { enum: ["standard", "high"] },
      },
      ["prompt", "images", "image", "quality"],
    );
    expect(Object.keys(filled(schema).errors)).toEqual(["prompt", "images", "image", "quality"]);
    expect(filled(schema).errors.image).toBe("Choose a file.");
  });

  test("a required field that may be null is null when it is empty", () => {
    const schema = object({ seed: { type: ["integer", "null"] } }, ["seed"]);
    expect(filled(schema)).toEqual({ payload: { seed: null }, errors: {} });
  });

  test("a required text without a least length may be empty", () => {
    expect(filled(object({ note: { type: "string" } }, ["note"]))).toEqual({ payload: { note: "" }, errors: {} });
  });

  test.each([
    ["2.5", { type: "integer" }, "Write a whole number."],
    ["two", { type: "number" }, "Write a number, such as 4 or 0.5."],
    ["0x10", { type: "number" }, "Write a number, such as 4 or 0.5."],
    ["9", { type: "integer", maximum: 8 }, "At most 8."],
    ["0", { type: "integer", minimum: 1 }, "At least 1."],
    ["0", { type: "number", exclusiveMinimum: 0 }, "More than 0."],
    ["1", { type: "number", exclusiveMaximum: 1 }, "Less than 1."],
  ] as [string, JsonSchema, string][])("the number %s of %o is refused: %s", (text, schema, words) => {
    expect(filled(object({ n: schema }), { n: text }).errors).toEqual({ n: words });
  });

  test.each([
    ["", "This field is required.", ["n"]],
    ["abcd", "At most 3 characters; these are 4.", []],
    ["💡💡💡", undefined, []],
  ] as [string, string | undefined, string[]][])("the text %j is judged by its characters", (text, words, required) => {
    const schema = object({ n: { type: "string", minLength: 1, maxLength: 3 } }, required);
    const { errors } = filled(schema, { n: text });
    expect(errors.n).toBe(words);
  });

  test("a number keeps the digits that were typed", () => {
    const { payload } = filled(object({ seed: { type: "integer" }, f: { type: "number" } }), {
      seed: "12345678901234567890",
      f: "1e400",
    });
    expect(JSON.stringify(payload)).toBe('{"seed":12345678901234567890,"f":1e400}');
  });

  test("errors inside lists and groups have paths", () => {
    const schema = object(
      {
        people: {
          type: "array",
          minItems: 1,
          items: object({ name: { type: "string", minLength: 1 }, age: { type: "integer" } }, ["name"]),
        },
      },
      ["people"],
    );
    const { errors } = filled(schema, {
      people: [
        { name: "ana", age: "x" },
        { name: "", age: "" },
      ],
    });
    expect(errors).toEqual({
      "people.0.age": "Write a number, such as 4 or 0.5.",
      "people.1.name": "This field is required.",
    });
  });

  test("a list has its least and most", () => {
    const schema = object({ tags: { type: "array", minItems: 2, maxItems: 3, items: { type: "string" } } }, ["tags"]);
    expect(draftOf(formOf(schema))).toEqual({ tags: ["", ""] });
    expect(filled(schema, { tags: ["a"] }).errors.tags).toBe("At least 2 are needed.");
    expect(filled(schema, { tags: ["a", "b", "c", "d"] }).errors.tags).toBe("At most 3 are allowed.");
  });

  test("an optional group counts only once something is in it", () => {
    const schema = object({
      camera: object({ lens: { type: "number", default: 50 }, make: { type: "string" } }, ["make"]),
    });
    expect(filled(schema)).toEqual({ payload: {}, errors: {} });
    expect(filled(schema, { camera: { lens: "35", make: "" } }).payload).toEqual({ camera: { lens: 35, make: "" } });
  });

  test("what is no JSON is said to be none", () => {
    expect(filled(object({ extra: {} }), { extra: "{" }).errors.extra).toMatch(/^This is not JSON/);
    expect(filled(object({ extra: {} }), { extra: '{"a": [1]}' }).payload).toEqual({ extra: { a: [1] } });
  });
});

describe("what the server said", () => {
  const form = formOf(object({ scale: { type: "integer" }, items: { type: "array", items: object({ name: {} }) } }));

  test("goes to its fields", () => {
    const detail =
      "the payload does not fit tool upscale: scale: Input should be 2 or 4; items.0.name: Field required; nothing was changed.";
    expect(fieldErrors(detail, form)).toEqual({
      errors: { scale: "Input should be 2 or 4", "items.0.name": "Field required" },
      rest: undefined,
    });
  });

  test("stays whole where it belongs to no field", () => {
    expect(fieldErrors("ana has 0 credits; nothing was changed.", form)).toEqual({
      errors: {},
      rest: "ana has 0 credits; nothing was changed.",
    });
    const other = fieldErrors("the payload does not fit tool upscale: colour: Extra inputs are not permitted.", form);
    expect(other).toEqual({ errors: {}, rest: "colour: Extra inputs are not permitted" });
  });
});
