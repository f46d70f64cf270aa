// A submit that makes one job, however often it is pressed, retried or repeated after the page was loaded again.
import { FichaError } from "./errors";
import type { Http } from "./http";
import type { UploadProgress } from "./states";
import { retrying, type Times } from "./times";
import type { Payload, Receipt } from "./types";
import type { Uploads } from "./uploads";

export interface SubmitOptions {
  /** The product's name for this visit; what is left waiting when the visit ends can be cancelled by it. */
  session?: string | undefined;
  /** A name of the product's own for this submit, in place of one that is made here. */
  idempotencyKey?: string | undefined;
  onUpload?: ((progress: UploadProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** What is kept until a submit is answered. */
interface Pending {
  key: string;
  /** The ids of its files, once they have arrived: another id would be another payload. */
  files: string[] | null;
}

const PREFIX = "ficha:submit:";

export class Submits {
  readonly #underWay = new Map<string, Promise<Receipt>>();
  /** In place of sessionStorage, where there is none or it is full. */
  readonly #remembered = new Map<string, Pending>();

  constructor(
    readonly http: Http,
    readonly uploads: Uploads,
    readonly times: Times,
  ) {}

  /** Two presses with the same payload are one submit. */
  submit(tool: string, payload: Payload, options: SubmitOptions): Promise<Receipt> {
    const files: Blob[] = [];
    const described = JSON.stringify([
      tool,
      withFiles(payload, (file) => describe(file, files)),
      options.session ?? null,
      options.idempotencyKey ?? null,
    ]);
    const name = PREFIX + digest(described);
    let found = this.#underWay.get(name);
    if (!found) {
      found = this.#submit(name, tool, payload, files, options).finally(() => this.#underWay.delete(name));
      this.#underWay.set(name, found);
    }
    return found;
  }

  async #submit(
    name: string,
    tool: string,
    payload: Payload,
    files: readonly Blob[],
    options: SubmitOptions,
  ): Promise<Receipt> {
    const { session, idempotencyKey, onUpload, signal } = options;
    for (let tries = 0; ; tries += 1) {
      signal?.throwIfAborted();
      const pending = this.#pending(name);
      const isReused = files.some((file) => this.uploads.known(file) !== undefined) || pending.files !== null;
      pending.files ??= await this.uploads.all(files, { onProgress: onUpload, signal });
      this.#keep(name, pending);
      const ids = [...pending.files];
      const body = { tool, payload: withFiles(payload, () => ids.shift()), ...(session && { session }) };
      const headers = { "Idempotency-Key": idempotencyKey ?? pending.key, Prefer: "wait=0" };
      try {
        const send = () => this.http.json<Receipt>("POST", "/api/jobs", { body, headers, signal });
        const receipt = (await retrying(send, this.times, signal)) as Receipt;
        this.#drop(name);
        return receipt;
      } catch (error) {
        if (!isAnswer(error)) throw error;
        this.#drop(name);
        // A file that arrived earlier may have been removed since: then it is sent again, once.
        if (error.code !== "INVALID_PAYLOAD" || !isReused || tries) throw error;
        this.uploads.forget(files);
      }
    }
  }

  #pending(name: string): Pending {
    const found = this.#remembered.get(name) ?? read(name);
    if (found) return found;
    const made: Pending = { key: randomKey(), files: null };
    this.#keep(name, made);
    return made;
  }

  #keep(name: string, pending: Pending): void {
    this.#remembered.set(name, pending);
    try {
      sessionStorage.setItem(name, JSON.stringify(pending));
    } catch {
      // Forbidden, full, or no browser: it is remembered until the page goes.
    }
  }

  #drop(name: string): void {
    this.#remembered.delete(name);
    try {
      sessionStorage.removeItem(name);
    } catch {
      // As above.
    }
  }
}

/** The payload with something in place of each of its files. */
export function withFiles(value: unknown, put: (file: Blob) => unknown): unknown {
  if (value instanceof Blob) return put(value);
  if (Array.isArray(value)) return value.map((item) => withFiles(item, put));
  if (typeof FileList !== "undefined" && value instanceof FileList) return Array.from(value, put);
  if (value === null || typeof value !== "object" || "toJSON" in value) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, withFiles(field, put)]));
}

/** Whether the server has decided. Where it may not have, the same key is sent again. */
function isAnswer(error: unknown): error is FichaError {
  return (
    error instanceof FichaError && !error.retryable && error.status >= 400 && error.status < 500 && error.status !== 401
  );
}

function describe(file: Blob, files: Blob[]): unknown {
  files.push(file);
  const named = file instanceof File ? [file.name, file.lastModified] : [];
  return { file: [file.size, file.type, ...named] };
}

function read(name: string): Pending | undefined {
  try {
    const found = sessionStorage.getItem(name);
    return found ? (JSON.parse(found) as Pending) : undefined;
  } catch {
    return undefined;
  }
}

/** 128 random bits. `randomUUID` exists over https only. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Tells payloads of one page apart: two sums of 32 bits and the length. `crypto.subtle` exists over https only. */
function digest(text: string): string {
  let one = 0x811c9dc5;
  let other = 0x9747b28c;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    one = Math.imul(one ^ code, 0x01000193);
    other = Math.imul(other ^ code, 0x85ebca6b) ^ (other >>> 13);
  }
  return [one, other, text.length].map((part) => (part >>> 0).toString(36)).join("-");
}
