// A form made from a tool's JSON Schema: which fields there are, what stands in them at first, and the payload that they
// make. Pure; SchemaForm.tsx draws it. The server judges every payload again: what is checked here only saves a round.
import { plural } from "./format";

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  format?: string;
  writeOnly?: boolean;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  minItems?: number;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
}

interface Common {
  title: string;
  help: string | undefined;
  isRequired: boolean;
  /** null is a value that it takes. */
  isNullable: boolean;
  /** What the server takes where the field is left out; undefined if there is none. */
  initial: unknown;
}

export type FormField = Common &
  (
    | { kind: "text"; isLong: boolean; isSecret: boolean; type: TextType; rules: JsonSchema }
    | { kind: "number"; isInteger: boolean; rules: JsonSchema }
    | { kind: "boolean" }
    | { kind: "choice"; options: unknown[] }
    | { kind: "file" }
    | { kind: "list"; item: FormField; least: number; most: number | undefined }
    | { kind: "group"; fields: [name: string, field: FormField][] }
    | { kind: "json" }
  );

type TextType = "text" | "date" | "datetime-local" | "time" | "email" | "url";

/** What a person has typed so far. Numbers are kept as text: "1e" is not one yet, and 12345678901234567890 stays whole. */
export type Draft = string | boolean | Draft[] | { [name: string]: Draft };

export const FILE_FORMAT = "ficha-file";
const DEPTH_MAX = 6;
const TEXT_TYPES: Record<string, TextType> = {
  date: "date",
  "date-time": "text",
  time: "time",
  email: "email",
  uri: "url",
};

/** The form for a payload. A schema that no field fits becomes a box for JSON. */
export function formOf(schema: JsonSchema): FormField {
  return fieldOf(schema, schema, "", true, 0);
}

function fieldOf(given: JsonSchema, root: JsonSchema, name: string, isRequired: boolean, depth: number): FormField {
  const { schema, isNullable } = settled(given, root);
  const common: Common = {
    title: given.title ?? schema.title ?? name,
    help: given.description ?? schema.description,
    isRequired,
    isNullable,
    initial: given.default ?? schema.default,
  };
  const type = Array.isArray(schema.type) ? undefined : schema.type;
  if (schema.const !== undefined) return { ...common, kind: "choice", options: [schema.const] };
  if (schema.enum) return { ...common, kind: "choice", options: schema.enum };
  if (type === "string" && schema.format === FILE_FORMAT) return { ...common, kind: "file" };
  if (type === "string") {
    return {
      ...common,
      kind: "text",
      isLong: (schema.maxLength ?? 0) > 120,
      isSecret: schema.format === "password" || schema.writeOnly === true,
      type: TEXT_TYPES[schema.format ?? ""] ?? "text",
      rules: schema,
    };
  }
  if (type === "integer" || type === "number") {
    return { ...common, kind: "number", isInteger: type === "integer", rules: schema };
  }
  if (type === "boolean") return { ...common, kind: "boolean" };
  if (type === "array" && schema.items && depth < DEPTH_MAX) {
    const item = fieldOf(schema.items, root, "", true, depth + 1);
    return { ...common, kind: "list", item, least: schema.minItems ?? 0, most: schema.maxItems };
  }
  if ((type === "object" || schema.properties) && schema.properties && depth < DEPTH_MAX) {
    const required = new Set(schema.required ?? []);
    const fields = Object.entries(schema.properties).map(([key, inner]): [string, FormField] => [
      key,
      fieldOf(inner, root, key, required.has(key), depth + 1),
    ]);
    return { ...common, kind: "group", fields };
  }
  if (type === "object" && depth === 0) return { ...common, kind: "group", fields: [] };
  return { ...common, kind: "json" };
}

/** Follows references, and takes "this or null" apart. A choice between several shapes stays as it is: a box for JSON. */
function settled(given: JsonSchema, root: JsonSchema): { schema: JsonSchema; isNullable: boolean } {
  let schema = given;
  let isNullable = false;
  for (let step = 0; step < 10; step += 1) {
    if (schema.$ref) {
      const target = root.$defs?.[schema.$ref.replace(/^#\/\$defs\//, "")];
      if (!target) break;
      schema = target;
      continue;
    }
    if (schema.allOf?.length === 1 && schema.allOf[0]) {
      schema = schema.allOf[0];
      continue;
    }
    if (Array.isArray(schema.type)) {
      const rest = schema.type.filter((type) => type !== "null");
      if (rest.length !== 1) break;
      isNullable = isNullable || rest.length < schema.type.length;
      schema = { ...schema, type: rest[0] };
      continue;
    }
    const options = schema.anyOf ?? schema.oneOf;
    if (options) {
      const rest = options.filter((option) => option.type !== "null");
      isNullable = isNullable || rest.length < options.length;
      if (rest.length !== 1 || !rest[0]) break;
      schema = rest[0];
      continue;
    }
    break;
  }
  return { schema, isNullable };
}

/** What stands in the form at first: the defaults. */
export function draftOf(field: FormField, value: unknown = field.initial): Draft {
  switch (field.kind) {
    case "text":
    case "file":
      return typeof value === "string" ? value : "";
    case "number":
      return typeof value === "number" ? String(value) : "";
    case "boolean":
      return value === true ? true : value === false || field.isRequired ? false : "";
    case "choice": {
      const index = field.options.findIndex((option) => JSON.stringify(option) === JSON.stringify(value));
      return index >= 0 ? String(index) : field.isRequired && field.options.length === 1 ? "0" : "";
    }
    case "list": {
      const given = Array.isArray(value) ? value.map((item) => draftOf(field.item, item)) : [];
      while (given.length < field.least) given.push(draftOf(field.item));
      return given;
    }
    case "group": {
      const given = value !== null && typeof value === "object" ? (value as Record<string, unknown>) : {};
      return Object.fromEntries(
        field.fields.map(([name, inner]) => [name, draftOf(inner, name in given ? given[name] : inner.initial)]),
      );
    }
    case "json":
      return value === undefined ? "" : JSON.stringify(value, null, 2);
  }
}

/** What is wrong, by the path of the field: `images`, `items.0.name`. */
export type Errors = Record<string, string>;

const MISSING = "This field is required.";
const NO_FILE = "Choose a file.";

/** Whether words only say that a field is still empty: no mistake before somebody wants to send the form. */
export const isMissing = (words: string): boolean => words === MISSING || words === NO_FILE;

/** Left out of the payload: the server takes the default. */
export const ABSENT = Symbol("absent");

/** The payload that a draft makes, and what is wrong with it. The payload of a draft with errors is not to be sent. */
export function payloadOf(form: FormField, draft: Draft): { payload: Record<string, unknown>; errors: Errors } {
  const errors: Errors = {};
  const value = read(form, draft, "", errors);
  return { payload: value === ABSENT || value === null ? {} : (value as Record<string, unknown>), errors };
}

function read(field: FormField, draft: Draft, path: string, errors: Errors): unknown {
  const wrong = (words: string): typeof ABSENT => {
    errors[path] = words;
    return ABSENT;
  };
  const nothing = (): unknown => {
    if (field.isRequired && field.isNullable) return null;
    if (field.isRequired) return wrong(field.kind === "file" ? NO_FILE : MISSING);
    return ABSENT;
  };
  switch (field.kind) {
    case "text": {
      const text = String(draft);
      // An empty text is a value only where the field must be there and may be empty.
      if (text === "" && !(field.isRequired && !field.isNullable && !field.rules.minLength && field.type === "text")) {
        return nothing();
      }
      return textProblem(text, field.rules, wrong) ?? text;
    }
    case "number": {
      const text = String(draft).trim();
      if (text === "") return nothing();
      return numberProblem(text, field.isInteger, field.rules, wrong) ?? exactNumber(text);
    }
    case "boolean":
      return draft === "" ? nothing() : draft === true;
    case "choice":
      return draft === "" ? nothing() : field.options[Number(draft)];
    case "file":
      return draft === "" ? nothing() : draft;
    case "list": {
      const items = Array.isArray(draft) ? draft : [];
      if (items.length === 0 && !field.isRequired) return ABSENT;
      if (items.length < field.least) return wrong(`At least ${field.least} are needed.`);
      if (field.most !== undefined && items.length > field.most) return wrong(`At most ${field.most} are allowed.`);
      return items.map((item, index) => read(field.item, item, at(path, String(index)), errors));
    }
    case "group": {
      const given = typeof draft === "object" && !Array.isArray(draft) ? draft : {};
      const isUntouched = !field.isRequired && JSON.stringify(given) === JSON.stringify(draftOf(field));
      if (isUntouched) return ABSENT;
      const made: Record<string, unknown> = {};
      for (const [name, inner] of field.fields) {
        const value = read(inner, given[name] ?? draftOf(inner), at(path, name), errors);
        if (value !== ABSENT) made[name] = value;
      }
      return made;
    }
    case "json": {
      const text = String(draft).trim();
      if (text === "") return nothing();
      try {
        return JSON.parse(text);
      } catch (error) {
        return wrong(`This is not JSON: ${(error as Error).message}`);
      }
    }
  }
}

const at = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);

function textProblem(text: string, rules: JsonSchema, wrong: (words: string) => typeof ABSENT) {
  const length = [...text].length; // in characters, as Python counts them
  if (rules.minLength !== undefined && length < rules.minLength)
    return wrong(`At least ${plural(rules.minLength, "character")}.`);
  if (rules.maxLength !== undefined && length > rules.maxLength) {
    return wrong(`At most ${plural(rules.maxLength, "character")}; these are ${length}.`);
  }
  return undefined;
}

function numberProblem(text: string, isInteger: boolean, rules: JsonSchema, wrong: (words: string) => typeof ABSENT) {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return wrong("Write a number, such as 4 or 0.5.");
  if (isInteger && !/^-?\d+$/.test(text)) return wrong("Write a whole number.");
  const value = Number(text);
  if (rules.minimum !== undefined && value < rules.minimum) return wrong(`At least ${rules.minimum}.`);
  if (rules.maximum !== undefined && value > rules.maximum) return wrong(`At most ${rules.maximum}.`);
  if (rules.exclusiveMinimum !== undefined && value <= rules.exclusiveMinimum) {
    return wrong(`More than ${rules.exclusiveMinimum}.`);
  }
  if (rules.exclusiveMaximum !== undefined && value >= rules.exclusiveMaximum) {
    return wrong(`Less than ${rules.exclusiveMaximum}.`);
  }
  return undefined;
}

/** A number as it was typed: `JSON.stringify` writes every digit, where the browser can. */
function exactNumber(text: string): unknown {
  const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;
  return String(Number(text)) === text || raw === undefined ? Number(text) : raw(text);
}

/**
 * What the server said of single fields: `the payload does not fit tool upscale: scale: Input should be 2 or 4; image:
 * Field required; nothing was changed.` What belongs to no field of the form stays in `rest`.
 */
export function fieldErrors(detail: string, form: FormField): { errors: Errors; rest: string | undefined } {
  const found = /^the payload does not fit tool \S+: (.*?)(; nothing was changed)?\.?$/s.exec(detail);
  if (!found?.[1]) return { errors: {}, rest: detail };
  const errors: Errors = {};
  const rest: string[] = [];
  for (const part of found[1].split("; ")) {
    const [, path, words] = /^([\w.-]+): (.*)$/s.exec(part) ?? [];
    if (path !== undefined && words !== undefined && has(form, path.split("."))) errors[path] = words;
    else rest.push(part);
  }
  return { errors, rest: rest.length > 0 ? rest.join("; ") : undefined };
}

function has(field: FormField, [name, ...more]: string[]): boolean {
  if (name === undefined) return true;
  if (field.kind === "list") return /^\d+$/.test(name) && has(field.item, more);
  if (field.kind !== "group") return false;
  const inner = field.fields.find(([key]) => key === name)?.[1];
  return inner !== undefined && has(inner, more);
}
