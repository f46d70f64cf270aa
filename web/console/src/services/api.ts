// Every call of the console to its server: typed by the OpenAPI document, signed in by cookie, problems as errors.
// Components do not call this; they use the queries of queries.ts or a mutation.
import type { components, paths as Paths } from "../../../client/src/openapi";
import { parseJson } from "./exact-json";

export type Schemas = components["schemas"];
type Verb = "get" | "post" | "delete";

type Operation<P extends keyof Paths, V extends Verb> = V extends keyof Paths[P] ? NonNullable<Paths[P][V]> : never;
type WithVerb<V extends Verb> = { [P in keyof Paths]: [Operation<P, V>] extends [never] ? never : P }[keyof Paths];
type Content<R> = R extends { content: { "application/json": infer A } } ? A : never;
type Responses<O> = O extends { responses: infer R } ? R : never;
export type Answer<P extends keyof Paths, V extends Verb> = {
  [Status in keyof Responses<Operation<P, V>> & (200 | 201 | 202)]: Content<Responses<Operation<P, V>>[Status]>;
}[keyof Responses<Operation<P, V>> & (200 | 201 | 202)];
type Body<O> = O extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer A } }
    ? A
    : undefined
  : undefined;
type Query<O> = O extends { parameters: { query?: infer Q } } ? NonNullable<Q> : Record<never, never>;
type PathOf<O> = O extends { parameters: { path: infer P } } ? P : Record<never, never>;

interface Call<O> {
  /** Values for the `{…}` of the path. */
  path?: PathOf<O>;
  query?: Query<O>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** What the server refused, or that it was not reached (`status` 0, code `UNREACHABLE`). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly retryable: boolean,
    readonly retryAfterS: number | null = null,
    readonly correlationId: string | null = null,
    /** Where in a search text the mistake is, counted from 1, if the server says so. */
    readonly position: number | null = null,
  ) {
    super(detail);
    this.name = "Problem";
  }
}

/** The words of any error, for people. */
export function wordsOf(error: unknown): string {
  if (error instanceof Problem) return error.detail;
  return error instanceof Error ? error.message : String(error);
}

export const api = {
  get<P extends WithVerb<"get">>(path: P, call: Call<Operation<P, "get">> = {}): Promise<Answer<P, "get">> {
    return send("GET", path, call) as Promise<Answer<P, "get">>;
  },
  post<P extends WithVerb<"post">>(
    path: P,
    body?: Body<Operation<P, "post">>,
    call: Call<Operation<P, "post">> = {},
  ): Promise<Answer<P, "post">> {
    return send("POST", path, call, body ?? undefined) as Promise<Answer<P, "post">>;
  },
  delete<P extends WithVerb<"delete">>(path: P, call: Call<Operation<P, "delete">> = {}): Promise<Answer<P, "delete">> {
    return send("DELETE", path, call) as Promise<Answer<P, "delete">>;
  },
};

let whenSignedOut: () => void = () => {};

/** What happens when the server answers 401: the sign-in ended or never was. */
export function onSignedOut(act: () => void): void {
  whenSignedOut = act;
}

/** Answers by address with their ETag: a poll that brings nothing new costs no body and gives the same object again. */
const remembered = new Map<string, { etag: string; answer: unknown }>();
const REMEMBERED_MAX = 60;

/** Forgets what was read under another sign-in. */
export function forgetAnswers(): void {
  remembered.clear();
}

async function send(method: string, path: string, call: AnyCall, body?: unknown): Promise<unknown> {
  const url = addressOf(path, call);
  const known = method === "GET" ? remembered.get(url) : undefined;
  const headers: Record<string, string> = { Accept: "application/json", ...call.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (known) headers["If-None-Match"] = known.etag;
  const response = await reach(url, {
    method,
    headers,
    credentials: "same-origin",
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: call.signal,
  });
  if (response.status === 304 && known) return known.answer;
  const text = await response.text();
  if (!response.ok) {
    const problem = problemOf(response, text);
    if (problem.status === 401 && path !== "/api/sign-in") whenSignedOut();
    throw problem;
  }
  const answer = text === "" ? undefined : parseJson(text);
  const etag = response.headers.get("ETag");
  if (method === "GET" && etag) remember(url, etag, answer);
  return answer;
}

interface AnyCall {
  path?: object;
  query?: object;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The address of a call: path values are escaped, query values that are absent or empty are left out. */
export function addressOf(path: string, call: Pick<AnyCall, "path" | "query">): string {
  const values = new Map(Object.entries(call.path ?? {}));
  const filled = path.replace(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(String(values.get(name))));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  return query.size > 0 ? `${filled}?${query}` : filled;
}

async function reach(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "UNREACHABLE", "The server does not answer. What is shown may be old.", true);
  }
}

function problemOf(response: Response, text: string): Problem {
  let told: Partial<Schemas["Problem"]> & { position?: number } = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (parsed !== null && typeof parsed === "object") told = parsed;
  } catch {
    // A proxy's page instead of a problem: its status is all that is known.
  }
  const detail = told.detail ?? `The server answered ${response.status} ${response.statusText}`.trim();
  const retryable = told.retryable ?? response.status >= 500;
  const code = told.code ?? `HTTP_${response.status}`;
  return new Problem(
    response.status,
    code,
    detail,
    retryable,
    told.retry_after_s ?? null,
    told.correlation_id ?? null,
    told.position ?? null,
  );
}

function remember(url: string, etag: string, answer: unknown): void {
  remembered.delete(url);
  remembered.set(url, { etag, answer });
  for (const oldest of remembered.keys()) {
    if (remembered.size <= REMEMBERED_MAX) break;
    remembered.delete(oldest);
  }
}
