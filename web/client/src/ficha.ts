import { FichaError } from "./errors";
import { Followers, type JobListener } from "./follow";
import { handleOf, type JobHandle } from "./handle";
import { Http, type Query, type TokenSource } from "./http";
import { Reservations } from "./reservations";
import { type FinalState, type FollowedState, stateOf } from "./states";
import { type SubmitOptions, Submits, withFiles } from "./submits";
import { retrying, TIMES, type Times } from "./times";
import type {
  Account,
  Dated,
  Entry,
  FileInfo,
  Finish,
  Job,
  JobsQuery,
  LibraryItem,
  LibraryQuery,
  Page,
  PageQuery,
  Payload,
  Quote,
  Receipt,
  Tool,
  WorkRemoved,
} from "./types";
import { type UploadOptions, Uploads } from "./uploads";

/**
 * url: where the server is; the page's own origin if there is none.
 * token: an API token, or how to get one. A function is asked again, once, when the server refuses the token. Without
 *   one, the cookie of the sign-in counts.
 * fetch: another one than the browser's.
 * headers: asked for with every request, for headers such as `traceparent`.
 * streams: live streams at a time; further jobs are asked for every 3 seconds. A browser has six connections to a site.
 * times: for tests.
 */
export interface FichaOptions {
  url?: string | undefined;
  token?: TokenSource;
  fetch?: typeof fetch | undefined;
  headers?: (() => Record<string, string>) | undefined;
  streams?: number | undefined;
  times?: Partial<Times> | undefined;
}

/** A job that is being followed. */
export interface Subscription {
  readonly id: string;
  /** Null until the first news. */
  readonly state: FollowedState | null;
  /** Its end. Rejected with `FichaError` only if the server refuses to tell of it. */
  readonly done: Promise<FinalState>;
  close(): void;
}

/** A visit: what it left waiting is cancelled a while after `leave`, unless somebody comes back. */
export interface Session {
  stay(): Promise<void>;
  leave(): Promise<void>;
}

export interface Ficha {
  /** Uploads the files of the payload under a reserved slot, then creates the job: one, however often it is pressed or repeated. */
  submit(tool: string, payload?: Payload, options?: SubmitOptions): Promise<JobHandle>;
  /** What a submit would cost, and whether it would be admitted. Files need not have been uploaded. */
  quote(tool: string, payload?: Payload): Promise<Quote>;
  job(id: string): Promise<Job>;
  jobs(query?: JobsQuery): Promise<Page<Job>>;
  /** The account's active job, the one submitted last; null if it has none. */
  checkActiveJob(): Promise<Job | null>;
  cancelJob(id: string): Promise<Finish>;
  /** Calls the listener with every state of the job until its end, over all that happens to the connection. */
  subscribeToJob(id: string, listener: JobListener, options?: { signal?: AbortSignal | undefined }): Subscription;
  balance(): Promise<Account>;
  ledger(query?: PageQuery): Promise<Page<Entry>>;
  library(query?: LibraryQuery): Promise<Page<LibraryItem>>;
  removeWork(id: string): Promise<WorkRemoved>;
  tools(): Promise<Tool[]>;
  upload(file: Blob, options?: UploadOptions): Promise<FileInfo>;
  /** An address under which the page can show the file, for an hour at least half of which is left. */
  fileUrl(id: string): Promise<string>;
  session(id: string): Session;
  /** Any other route. Fields `…_at` of the answer are dates. */
  request<T = unknown>(method: string, path: string, body?: unknown, query?: Query): Promise<Dated<T>>;
}

const LINK_S = 3_600;
/** Stands for a file that has not been uploaded: an id that no file has. */
const NO_FILE = "00000000-0000-0000-0000-000000000000";

export function createFicha(options: FichaOptions = {}): Ficha {
  const times: Times = { ...TIMES, ...options.times };
  const http = new Http(
    options.url ?? "",
    options.token,
    options.fetch ?? ((input, init) => fetch(input, init)),
    options.headers,
  );
  const uploads = new Uploads(http, times);
  const submits = new Submits(http, uploads, new Reservations(http, times), times);
  const followers = new Followers(http, times, options.streams ?? 2);
  const links = new Map<string, { url: string; until: number }>();

  const get = <T>(path: string, query: Query = {}) => http.json<T>("GET", path, { query }) as Promise<T>;
  const job = (id: string): Promise<Job> => get(jobPath(id));

  const cancelJob = async (id: string): Promise<Finish> => {
    const finish = await retrying(() => http.json<Finish>("POST", `${jobPath(id)}/cancel`, { body: {} }), times);
    followers.known(id)?.refresh();
    return finish as Finish;
  };

  const submit = async (tool: string, payload: Payload = {}, asked: SubmitOptions = {}): Promise<JobHandle> => {
    const receipt: Receipt = await submits.submit(tool, payload, asked);
    const found = (receipt.job as Job | null | undefined) ?? (await retrying(() => job(receipt.job_id), times));
    const aside = { of: null, isOvertaken: false, usual: null, clockAhead: http.clockAhead };
    const first = stateOf(found, { ...aside, connection: "live", problem: null });
    const follow = (last: Job) => followers.known(found.id) ?? followers.of(found.id, last);
    return handleOf(follow, first, receipt, () => cancelJob(found.id));
  };

  const quote = async (tool: string, payload: Payload = {}): Promise<Quote> => {
    let isMissing = false;
    const whole = withFiles(payload, (file) => {
      const id = uploads.known(file);
      isMissing ||= id === undefined;
      return id ?? NO_FILE;
    });
    const told = (await http.json<Quote>("POST", "/api/quote", { body: { tool, payload: whole } })) as Quote;
    if (!isMissing || told.refusal?.code !== "INVALID_PAYLOAD") return told;
    // All that is wrong is that the file is not there yet. Only after the files does the server look at the credits.
    const { balance: have, cost: need } = told;
    if (have >= need) return { ...told, admitted: true, refusal: null, new_balance: have - need };
    const message = `the account has ${have} credits and needs ${need}; nothing was charged. Add credits first.`;
    // What stands in details differs from code to code; the schema names nothing.
    const details: object = { have, need };
    const refusal = { code: "INSUFFICIENT_CREDITS", message, retry_after_s: null, details } as Quote["refusal"];
    return { ...told, refusal };
  };

  const fileUrl = async (id: string): Promise<string> => {
    const known = links.get(id);
    if (known && known.until > Date.now()) return known.url;
    const path = `/api/files/${encodeURIComponent(id)}`;
    const link = await get<{ url: string }>(`${path}/link`, { ttl_s: LINK_S });
    // Signed by the server, and read where this page reaches it, which need not be the address it knows itself by.
    const signed = new URL(link.url, "http://localhost").searchParams;
    const url = http.url(path, { ...Object.fromEntries(signed), inline: true });
    if (links.size >= 500) links.clear();
    links.set(id, { url, until: Date.now() + LINK_S * 500 });
    return url;
  };

  return {
    submit,
    quote,
    job,
    jobs: (query = {}) => get("/api/jobs", { ...query, include: query.include?.join() }),
    checkActiveJob: async () => (await get<{ job: Job | null }>("/api/jobs/active")).job,
    cancelJob,
    subscribeToJob: (id, listener, { signal } = {}) => {
      const follower = followers.of(id);
      const close = follower.listen(listener);
      signal?.addEventListener("abort", close, { once: true });
      if (signal?.aborted) close();
      return {
        id,
        get state() {
          return follower.state;
        },
        done: follower.done,
        close: () => {
          signal?.removeEventListener("abort", close);
          close();
        },
      };
    },
    balance: () => get("/api/account"),
    ledger: (query = {}) => get("/api/account/ledger", { ...query }),
    library: (query = {}) => get("/api/library", { ...query, include: query.include?.join() }),
    removeWork: (id) => http.json("DELETE", `/api/library/${encodeURIComponent(id)}`) as Promise<WorkRemoved>,
    tools: async () => (await get<{ items: Tool[] }>("/api/tools")).items,
    upload: (file, asked) => uploads.upload(file, asked),
    fileUrl,
    session: (id) => {
      const path = `/api/sessions/${encodeURIComponent(id)}`;
      return {
        stay: async () => {
          await http.send("POST", `${path}/stay`);
        },
        leave: () => http.sendLast("POST", `${path}/leave`),
      };
    },
    request: (method, path, body, query = {}) => http.json(method, path, { body, query }),
  };
}

/** Whether an error is one of the server's, with this code or with any. */
export function isFichaError(error: unknown, code?: string): error is FichaError {
  return error instanceof FichaError && (code === undefined || error.code === code);
}

function jobPath(id: string): string {
  return `/api/jobs/${encodeURIComponent(id)}`;
}
