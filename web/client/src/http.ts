// One request: where to, with which credential, and what the answer means.
import { dated } from "./dates";
import { answeredError, FichaError, networkError } from "./errors";
import type { Dated } from "./types";

export type TokenSource = string | (() => string | Promise<string>) | undefined;
export type Query = Readonly<Record<string, unknown>>;

export interface Call {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

export class Http {
  /** By how much the server's clock is ahead of this one, in milliseconds; 0 where the server's is not known. */
  clockAhead = 0;
  readonly #base: string;
  readonly #source: TokenSource;
  readonly #fetch: typeof fetch;
  readonly #more: () => Record<string, string>;
  #token: string | undefined;
  #asking: Promise<string> | undefined;

  constructor(
    base: string,
    source: TokenSource,
    fetcher: typeof fetch,
    more: () => Record<string, string> = () => ({}),
  ) {
    this.#base = base.replace(/\/+$/, "");
    this.#more = more;
    this.#source = source;
    this.#token = typeof source === "string" ? source : undefined;
    // Called as a function: a browser's fetch refuses another `this`.
    this.#fetch = (input, init) => fetcher(input, init);
  }

  url(path: string, query: Query = {}): string {
    const parts = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== undefined && one !== null)
          parts.append(name, one instanceof Date ? one.toISOString() : String(one));
      }
    }
    return `${this.#base}${path}${parts.size ? `?${parts}` : ""}`;
  }

  /** The token to send. It is asked for once and kept until the server refuses it. */
  async token(): Promise<string | undefined> {
    if (this.#token === undefined && typeof this.#source === "function") {
      const source = this.#source;
      this.#asking ??= (async () => source())().finally(() => {
        this.#asking = undefined;
      });
      this.#token = await this.#asking;
    }
    return this.#token;
  }

  /** Forgets a token that was refused. False where no other can be had. Many calls that fail together ask once. */
  renew(refused: string | undefined): boolean {
    if (typeof this.#source !== "function") return false;
    if (this.#token === refused) this.#token = undefined;
    return true;
  }

  /** The answer, if it is a good one (or 304); otherwise throws `FichaError`. On 401 it asks for a new token, once. */
  async send(method: string, path: string, call: Call = {}): Promise<Response> {
    const token = await this.token();
    let response = await this.#sendOnce(method, path, call, token);
    if (response.status === 401 && this.renew(token)) {
      response = await this.#sendOnce(method, path, call, await this.token());
    }
    this.#compareClocks(response.headers.get("date"));
    if (response.ok || response.status === 304) return response;
    const body = await response.text().catch(() => "");
    throw answeredError(response.status, body, response.headers.get("retry-after"));
  }

  async json<T>(method: string, path: string, call: Call = {}): Promise<Dated<T>> {
    const response = await this.send(method, path, call);
    try {
      const text = await response.text();
      return dated(text ? (JSON.parse(text) as T) : (null as T));
    } catch (error) {
      if (call.signal?.aborted) throw error;
      throw networkError(error);
    }
  }

  /** Sends at once, without waiting for anything, in a request that outlives the page. */
  sendLast(method: string, path: string): Promise<void> {
    const init: RequestInit = { method, headers: this.#headers({}, this.#token), keepalive: true };
    return this.#fetch(this.url(path), init).then(
      (response) => {
        if (!response.ok) throw answeredError(response.status, "", null);
      },
      (error: unknown) => {
        throw networkError(error);
      },
    );
  }

  async #sendOnce(method: string, path: string, call: Call, token: string | undefined): Promise<Response> {
    const headers = this.#headers(call.headers, token);
    const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
    if (call.signal) init.signal = call.signal;
    if (call.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    try {
      return await this.#fetch(this.url(path, call.query), init);
    } catch (error) {
      if (error instanceof FichaError || call.signal?.aborted) throw error;
      throw networkError(error);
    }
  }

  /** The header has whole seconds, and answers take their time: less than two seconds say nothing. */
  #compareClocks(date: string | null): void {
    const ahead = date ? Date.parse(date) + 500 - Date.now() : this.clockAhead;
    if (Math.abs(ahead - this.clockAhead) > 2_000) this.clockAhead = ahead;
  }

  #headers(more: Record<string, string> | undefined, token: string | undefined): Record<string, string> {
    return { ...this.#more(), Accept: "application/json", ...(token && { Authorization: `Bearer ${token}` }), ...more };
  }
}
