// The names of what pages show most. Below them, shapes of routes that openapi.json does not have yet, written by hand:
// when it has one, its lines here go.
import type { components } from "../../../client/src/openapi";

type Schemas = components["schemas"];

/** Who is signed in. `environment` is the name of the installation, such as "production", if the server tells one. */
export type SignedIn = Schemas["SignedIn"] & { environment?: string | null };

export type Overview = Schemas["Overview"];
export type Series = Schemas["Series"];
export type Alert = Schemas["Alert"];
export type Range = Overview["range"];
export type JobSearch = Schemas["JobSearch"];
export type JobCount = Schemas["JobCount"];
export type JobPage = Schemas["JobPage"];
export type JobAct = JobPage["acts"][number];
export type DeadGroup = Schemas["DeadGroup"];
export type SearchWords = Schemas["SearchWords"];

export type BulkVerb = "requeue" | "discard" | "cancel" | "refund";

export interface BulkAct {
  id: string;
  act: BulkVerb;
  search: string;
  reason: string;
  state: "running" | "stopped" | "done";
  total: number;
  done: number;
  failed: number;
  credits: number;
  by: string;
  started_at: string;
  ended_at: string | null;
  failures: { job_id: string; code: string; text: string }[];
}

interface PageOf<Item> {
  items: Item[];
  next: string | null;
}

interface Get<Answer, Query = Record<never, never>, Path = Record<never, never>> {
  get: { parameters: { query?: Query; path: Path }; responses: { 200: Json<Answer> } };
}

interface Post<Answer, Body = undefined, Path = Record<never, never>> {
  post: {
    parameters: { path: Path };
    requestBody: { content: { "application/json": Body } };
    responses: { 200: Json<Answer> };
  };
}

interface Json<Answer> {
  content: { "application/json": Answer };
}

interface Paging {
  cursor?: string;
  limit?: number;
}

export interface NewPaths {
  "/api/admin/bulk-acts": Get<PageOf<BulkAct>, Paging> &
    Post<BulkAct, { act: BulkVerb; search: string; reason: string }>;
  "/api/admin/bulk-acts/{bulk_id}": Get<BulkAct, Record<never, never>, { bulk_id: string }>;
  "/api/admin/bulk-acts/{bulk_id}/stop": Post<BulkAct, undefined, { bulk_id: string }>;
}
