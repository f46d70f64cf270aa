// A payload that a tool would take, made up from its schema: for the lines that submit the first job.
import { FILE_FORMAT, type JsonSchema } from "./schema-form";

/** Its required fields with values; null where one is a file, which has to be uploaded first. */
export function examplePayload(schema: JsonSchema): Record<string, unknown> | null {
  const fields = (schema.required ?? []).map((name) => [name, schema.properties?.[name] ?? {}] as const);
  if (fields.some(([, field]) => JSON.stringify(field).includes(`"${FILE_FORMAT}"`))) return null;
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleValue(field)]));
}

function exampleValue(field: JsonSchema): unknown {
  if (field.const !== undefined) return field.const;
  if (field.enum?.length) return field.enum[0];
  switch (field.type) {
    case "integer":
    case "number":
      return field.minimum ?? 1;
    case "boolean":
      return true;
    case "array":
      return Array.from({ length: Math.max(1, field.minItems ?? 1) }, () => exampleValue(field.items ?? {}));
    case "object":
      return {};
    default:
      return "a lighthouse";
  }
}

/** A text as one word of a shell. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
