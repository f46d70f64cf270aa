// What the page knows about tools beyond what the server tells: their order, their pictures, and samples that suit them.
import type { Tool } from "@ficha/client";
import type { SampleKind } from "./door";

export interface Field {
  name: string;
  kind: "file" | "choice" | "number" | "text";
  title: string;
  isRequired: boolean;
  initial: unknown;
  choices: (string | number)[];
  least: number;
  most: number;
}

/** The least that a tool with a price by its payload costs. */
const FROM: Record<string, number> = {
  image_upscaler: 6,
  moods: 2,
  try_on: 4,
  product: 4,
  freestyle: 4,
  workflow: 4,
  video_upscaler: 30,
};
const ORDER = [
  "image_upscaler",
  "outfit_changer",
  "pose_changer",
  "moods",
  "product",
  "try_on",
  "freestyle",
  "workflow",
  "video_upscaler",
];
const MOST_TEXT = 500;

export function inOrder(tools: Tool[]): Tool[] {
  const place = (tool: Tool) => (ORDER.indexOf(tool.name) + 1 || ORDER.length + 1) - 1;
  return [...tools].sort((one, other) => place(one) - place(other));
}

/** What is on a tool's card: the price, and whether it is only the least. */
export function cardPrice(tool: Tool): { cost: number; isLeast: boolean } | null {
  if (tool.price !== null && tool.price !== undefined) return { cost: tool.price, isLeast: false };
  const cost = FROM[tool.name];
  return cost === undefined ? null : { cost, isLeast: true };
}

interface Property {
  format?: string;
  type?: string;
  enum?: (string | number)[];
  default?: unknown;
  title?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

/** The fields of a tool's payload, from its schema. */
export function fieldsOf(tool: Tool): Field[] {
  const schema = tool.schema as { properties?: Record<string, Property>; required?: string[] };
  return Object.entries(schema.properties ?? {}).map(([name, property]) => ({
    name,
    kind: kindOf(property),
    title: property.title ?? name,
    isRequired: schema.required?.includes(name) ?? false,
    initial: property.default,
    choices: property.enum ?? [],
    least: property.minimum ?? 0,
    most: property.maximum ?? property.maxLength ?? MOST_TEXT,
  }));
}

function kindOf(property: Property): Field["kind"] {
  if (property.format === "ficha-file") return "file";
  if (property.enum) return "choice";
  return property.type === "integer" ? "number" : "text";
}

/** Which samples suit a field, the best first. */
export function suitable(tool: string, field: string): SampleKind[] {
  if (field === "video") return ["clip"];
  if (field === "outfit" || field === "garment") return ["garment"];
  if (field === "person" || tool === "pose_changer" || tool === "outfit_changer") return ["person"];
  if (tool === "product") return ["product", "garment"];
  if (tool === "image_upscaler") return ["small", "person", "product"];
  return ["place", "person", "product"];
}

export interface ResultFile {
  file: string;
  name: string;
  media_type: string;
}

/** The files in a result, or in the part of it that is ready. That of a split request is a list: one for each job. */
export function filesIn(result: unknown): ResultFile[] {
  if (Array.isArray(result)) return result.flatMap(filesIn);
  const files = (result as { files?: unknown } | null | undefined)?.files;
  return Array.isArray(files) ? files.filter((one): one is ResultFile => typeof one?.file === "string") : [];
}

/** What a job was asked for. The payloads of a split request differ only in how many they ask for. */
export function askedIn(payload: unknown): Record<string, unknown> {
  const one: unknown = Array.isArray(payload) ? payload.find((part) => part !== null) : payload;
  return (one ?? {}) as Record<string, unknown>;
}

/** The ids of the files that a payload names, by field. */
export function inputsIn(payload: unknown, fields: Field[]): { field: string; file: string }[] {
  const given = askedIn(payload);
  return fields
    .filter((field) => field.kind === "file")
    .map((field) => ({ field: field.name, file: fileId(given[field.name]) }))
    .filter((one): one is { field: string; file: string } => one.file !== null);
}

function fileId(value: unknown): string | null {
  if (typeof value === "string") return value;
  const id = (value as { file?: unknown } | null | undefined)?.file;
  return typeof id === "string" ? id : null;
}
