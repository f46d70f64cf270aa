// Shapes of routes that openapi.json does not have yet, written by hand. When it has one, its lines here go.
import type { components } from "../../../client/src/openapi";

type Schemas = components["schemas"];

/** Who is signed in. `environment` is the name of the installation, such as "production", if the server tells one. */
export type SignedIn = Schemas["SignedIn"] & { environment?: string | null };

export interface Series {
  plan: string;
  tool: string;
  values: number[];
}

export interface Alert {
  code: string;
  severity: "warning" | "critical";
  text: string;
  link: string;
}

export type Range = "1h" | "6h" | "24h" | "7d" | "30d";

export interface Overview {
  as_of: string;
  range: Range;
  step_s: number;
  times: string[];
  depth: Series[];
  submitted: Series[];
  completed: Series[];
  failed: Series[];
  cancelled: Series[];
  wait_p50: (number | null)[];
  wait_p95: (number | null)[];
  run_p50: (number | null)[];
  run_p95: (number | null)[];
  charged: number[];
  refunded: number[];
  granted: number[];
  provider_cost: number[];
  failures: { reason: string; count: number }[];
  pools: Schemas["PoolView"][];
  workers: { alive: number; silent: number; names_silent: string[] };
  providers_down: string[];
  dead_letters: number;
  dead_letters_more: boolean;
  alerts: Alert[];
}

export interface JobSearch {
  items: Schemas["JobView"][];
  next: string | null;
  looked_at: number;
  is_whole: boolean;
}

export interface JobCount {
  count: number;
  is_exact: boolean;
  credits: number;
}

export type JobAct = "cancel" | "requeue" | "discard" | "recover" | "refund";

export interface JobPage {
  job: Schemas["JobView"];
  events: Schemas["EventView"][];
  more_events: boolean;
  steps: { name: string; saved_at: string; took_s: number | null; result: unknown }[];
  attempts: {
    number: number;
    worker: string | null;
    began_at: string;
    ended_at: string | null;
    how: string;
    error: string | null;
  }[];
  entries: Schemas["EntryView"][];
  files: Schemas["FileView"][];
  recent_runs: { job_id: string; status: string; finished_at: string; run_s: number }[];
  traceback: string | null;
  trace_url: string | null;
  acts: JobAct[];
  live_workers: number;
}

export interface DeadGroup {
  error: string;
  tool: string;
  count: number;
  credits: number;
  first_at: string;
  last_at: string;
  job_id: string;
}

export interface SearchWords {
  tools: string[];
  pools: string[];
  plans: string[];
  states: string[];
  providers: string[];
}

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
  "/api/admin/overview": Get<Overview, { range: Range }>;
  "/api/admin/jobs": Get<JobSearch, Paging & { search?: string }>;
  "/api/admin/jobs/count": Get<JobCount, { search?: string }>;
  "/api/admin/jobs/{job_id}": Get<JobPage, Record<never, never>, { job_id: string }>;
  "/api/admin/dead/groups": Get<{ items: DeadGroup[]; is_whole: boolean }>;
  "/api/admin/search-words": Get<SearchWords>;
  "/api/admin/accounts": Get<PageOf<Schemas["AccountView"]>, Paging & { search?: string }> &
    Post<Schemas["AccountView"], Schemas["OpenAccountBody"]>;
  "/api/admin/audit": Get<PageOf<Schemas["AuditView"]>, Paging & { target?: string; actor?: string }>;
  "/api/batches": Get<PageOf<Schemas["BatchView"]>, Paging & { account?: string }>;
  "/api/admin/bulk-acts": Get<PageOf<BulkAct>, Paging> &
    Post<BulkAct, { act: BulkVerb; search: string; reason: string }>;
  "/api/admin/bulk-acts/{bulk_id}": Get<BulkAct, Record<never, never>, { bulk_id: string }>;
  "/api/admin/bulk-acts/{bulk_id}/stop": Post<BulkAct, undefined, { bulk_id: string }>;
}
