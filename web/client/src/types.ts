// What the server answers with, as the OpenAPI document has it, but with dates in place of the texts of `…_at`.
import type { components } from "./openapi";

type Schemas = components["schemas"];

/** Fields with JSON that belongs to the product: nothing within them is converted. */
export type Opaque = "payload" | "result" | "partial" | "resume_data" | "data" | "schema" | "details";

type Moment = `${string}_at` | "at";

/** The same, with a `Date` for every field that ends in `_at` (or is called `at`). */
export type Dated<T> = T extends readonly (infer Item)[]
  ? Dated<Item>[]
  : T extends object
    ? {
        [Key in keyof T]: Key extends Opaque
          ? T[Key]
          : Key extends Moment
            ? Date | Exclude<T[Key], string>
            : Dated<T[Key]>;
      }
    : T;

export type Job = Dated<Schemas["JobView"]>;
export type JobStatus = Job["status"];
export type WaitReason = NonNullable<Job["waiting_for"]>;
export type JobEvent = Dated<Schemas["EventView"]>;
export type Account = Dated<Schemas["AccountAnswer"]>;
export type Entry = Dated<Schemas["EntryView"]>;
export type FileInfo = Dated<Schemas["FileView"]>;
/** A slot of the quota that is held for a job to come. */
export type Reservation = Dated<Schemas["Hold"]>;
export type Tool = Dated<Schemas["ToolView"]>;
export type LibraryItem = Dated<Schemas["LibraryItem"]>;
export type WorkRemoved = Dated<Schemas["WorkRemoved"]>;
export type Quote = Dated<Schemas["Quote"]>;
/** What a submit led to: the price, the balance that is left, warnings. */
export type Receipt = Dated<Schemas["SubmitAnswer"]>;
/** What a cancel led to: the credits that came back, the balance. */
export type Finish = Dated<Schemas["FinishView"]>;

/** A part of a list. Pass `next` as `cursor` to get the following part; null at the end. */
export interface Page<Item> {
  items: Item[];
  next: string | null;
}

export interface PageQuery {
  cursor?: string | undefined;
  limit?: number | undefined;
}

/** What a list of jobs leaves out unless it is named. */
export type JobText = "payload" | "result" | "partial";

export interface JobsQuery extends PageQuery {
  status?: JobStatus | JobStatus[] | undefined;
  tool?: string | undefined;
  pool?: string | undefined;
  batch?: string | undefined;
  session?: string | undefined;
  include?: JobText[] | undefined;
}

export interface LibraryQuery extends PageQuery {
  tool?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
  search?: string | undefined;
  include?: JobText[] | undefined;
}

/** A payload: JSON in which files may stand anywhere. They are uploaded, and their ids sent in their place. */
export type Payload = { readonly [field: string]: unknown };
