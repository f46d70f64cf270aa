// A real server on this machine that behaves as badly as a test wants it to.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Job } from "../src";

export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: string;
}

export type Answer = (seen: Seen, response: ServerResponse) => void | Promise<void>;

export class HostileServer {
  readonly seen: Seen[] = [];
  readonly #routes = new Map<string, Answer[]>();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<HostileServer> {
    const made = new HostileServer();
    await new Promise<void>((resolve) => made.#server.listen(0, "127.0.0.1", resolve));
    return made;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The answers of a route, one after another; the last one stays. */
  on(route: string, ...answers: Answer[]): this {
    this.#routes.set(route, answers);
    return this;
  }

  /** The requests of a route so far. */
  of(route: string): Seen[] {
    return this.seen.filter((seen) => `${seen.method} ${seen.path}` === route);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Access-Control-Allow-Headers", "*, Authorization");
    response.setHeader("Access-Control-Allow-Methods", "*");
    if (request.method === "OPTIONS") return void response.writeHead(204).end();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? "/", "http://server");
    const seen: Seen = {
      method: request.method ?? "GET",
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: Buffer.concat(chunks).toString("latin1"),
    };
    this.seen.push(seen);
    const answers = this.#routes.get(`${seen.method} ${seen.path}`);
    const answer = answers && (answers.length > 1 ? answers.shift() : answers[0]);
    if (answer) await answer(seen, response);
    else problem(404, "NOT_FOUND")(seen, response);
  }
}

export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return (_seen, response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(value));
  };
}

export function problem(status: number, code: string, more: Record<string, unknown> = {}): Answer {
  const retryable = status === 503 || code === "RATE_LIMITED";
  const body = {
    type: "about:blank",
    title: code,
    status,
    code,
    detail: `${code}, said the server`,
    retryable,
    ...more,
  };
  const wait = more.retry_after_s;
  return (_seen, response) => {
    if (typeof wait === "number") response.setHeader("Retry-After", String(Math.ceil(wait)));
    response.writeHead(status, { "Content-Type": "application/problem+json" }).end(JSON.stringify(body));
  };
}

/** Cuts the connection without an answer. */
export const cut: Answer = (_seen, response) => {
  response.destroy();
};

/** Takes the request and never answers. */
export const silence: Answer = () => {};

/** A stream of these texts or bytes, then its end: `close` as a proxy does, `cut` in the middle, `open` without one. */
export function stream(parts: (string | Uint8Array)[], end: "close" | "cut" | "open" = "close"): Answer {
  return async (_seen, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const part of parts) {
      response.write(part);
      // Each part is a packet of its own.
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    if (end === "close") response.end();
    if (end === "cut") response.destroy();
  };
}

export function message(event: string, data: unknown, id?: number | string): string {
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** An event of a job's history, as a message of its stream. */
export function happening(number: number, kind: string, data: Record<string, unknown> = {}): string {
  return message(kind, { number, job_id: "job-1", kind, data, at: "2026-11-16T10:00:05Z" }, number);
}

/** A job as it is sent: with dates as texts. */
export function jobJson(fields: Partial<Record<keyof Job, unknown>> = {}): Record<string, unknown> {
  return {
    id: "job-1",
    account: "ana",
    plan: "pro",
    tool: "upscale",
    pool: "gpu",
    session: null,
    status: "queued",
    position: 3,
    estimated_wait_s: 38,
    waiting_for: "place",
    cost: 4,
    charged: 4,
    refunded: 0,
    units: 1,
    delivered: null,
    payload: { at: "2026-11-16", made_at: "stays a text" },
    result: null,
    partial: null,
    error: null,
    user_error: null,
    attempts: 0,
    max_attempts: 3,
    epoch: 0,
    progress: 0,
    created_at: "2026-11-16T10:00:00Z",
    scheduled_at: null,
    started_at: null,
    locked_at: null,
    finished_at: null,
    ...fields,
  };
}

export function receiptJson(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    job_id: "job-1",
    status: "queued",
    position: 3,
    priority: 10,
    cost: 4,
    new_balance: 20,
    idempotent_hit: false,
    batch_id: null,
    jobs: 1,
    quota_warnings: [],
    cost_limit_warning: null,
    success: true,
    job: jobJson(),
    ...fields,
  };
}

/** Waits until it is so. */
export async function until<T>(what: () => T | undefined | false | null, within = 4_000): Promise<T> {
  const ends = Date.now() + within;
  for (;;) {
    const found = what();
    if (found) return found;
    if (Date.now() > ends) throw new Error(`not within ${within} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
