// A submit that makes one job, however often it is pressed, retried or repeated after the page was loaded again.
import { FichaError } from "./errors";
import type { Http } from "./http";
import { isOver, type Reservations } from "./reservations";
import type { UploadProgress } from "./states";
import { retrying, type Times } from "./times";
import type { Payload, Receipt } from "./types";
import { sizeOf, type Uploads } from "./uploads";

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
  /** The slot that is held for it, from before its files are sent. */
  reservation?: string | undefined;
}

const PREFIX = "ficha:submit:";

export class Submits {
  readonly #underWay = new Map<string, Promise<Receipt>>();
  /** In place of sessionStorage, where there is none or it is full. */
  readonly #remembered = new Map<string, Pending>();

  constructor(
    readonly http: Http,
    readonly uploads: Uploads,
    readonly reservations: Reservations,
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
    const { session, idempotencyKey, signal } = options;
    for (let tries = 0; ; tries += 1) {
      signal?.throwIfAborted();
      const pending = this.#pending(name);
      const isReused = files.some((file) => this.uploads.known(file) !== undefined) || pending.files !== null;
      pending.files ??= await this.#upload(name, pending, files, options);
      this.#keep(name, pending);
      const ids = [...pending.files];
      const body = { tool, payload: withFiles(payload, () => ids.shift()), ...(session && { session }) };
      const headers = { "Idempotency-Key": idempotencyKey ?? pending.key, Prefer: "wait=0" };
      const send = (reservation?: string): Promise<Receipt> => {
        const call = { body: { ...body, ...(reservation && { reservation }) }, headers, signal };
        return retrying(
          () => this.http.json<Receipt>("POST", "/api/jobs", call),
          this.times,
          signal,
        ) as Promise<Receipt>;
      };
      try {
        const receipt = await send(pending.reservation).catch((error: unknown) => {
          // An upload that took very long: now the quota decides as for any other submit.
          if (!pending.reservation || !isOver(error)) throw error;
          return send();
        });
        this.#drop(name);
        return receipt;
      } catch (error) {
        this.#release(name, pending);
        if (!isAnswer(error)) throw error;
        this.#drop(name);
        // A file that arrived earlier may have been removed since: then it is sent again, once.
        if (error.code !== "INVALID_PAYLOAD" || !isReused || tries) throw error;
        this.uploads.forget(files);
      }
    }
  }

  /** Sends what has not arrived yet, under a slot that is held before. */
  async #upload(
    name: string,
    pending: Pending,
    files: readonly Blob[],
    { onUpload, signal }: SubmitOptions,
  ): Promise<string[]> {
    // Held by a page that was left in the middle.
    this.#release(name, pending);
    const missing = files.filter((file) => this.uploads.known(file) === undefined);
    if (missing.length) {
      onUpload?.({ sent: 0, total: sizeOf(files), share: 0 });
      pending.reservation = await this.reservations.reserve(sizeOf(missing), signal);
      this.#keep(name, pending);
    }
    // Who leaves the page gives the slot back. The name stays, in case that this is not heard.
    const leave = (): void => {
      if (pending.reservation) this.reservations.release(pending.reservation);
    };
    globalThis.addEventListener?.("pagehide", leave);
    try {
      return await this.uploads.all(files, { onProgress: onUpload, signal }, pending.reservation);
    } catch (error) {
      this.#release(name, pending);
      throw error;
    } finally {
      globalThis.removeEventListener?.("pagehide", leave);
    }
  }

  #release(name: string, pending: Pending): void {
    if (!pending.reservation) return;
    this.reservations.release(pending.reservation);
    pending.reservation = undefined;
    this.#keep(name, pending);
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
