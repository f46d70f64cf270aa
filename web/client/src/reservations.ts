// Slots of the account's quota, held while files are sent: whoever is over quota learns it before, not after.
import { FichaError } from "./errors";
import type { Http } from "./http";
import { retrying, type Times } from "./times";
import type { Page, Reservation } from "./types";

/** A slot is held this long, and longer for what a slow line needs; then an abandoned one is free by itself. */
const LEAST_S = 60;
const MOST_S = 3_600;
const SLOW_LINE_BYTES_PER_S = 100_000;

export class Reservations {
  /** What is being freed: until then it counts against the next one. */
  readonly #releases = new Set<Promise<void>>();

  constructor(
    readonly http: Http,
    readonly times: Times,
  ) {}

  /** Holds a slot for as long as so many bytes may need. Called off, what was held in the end is freed. */
  async reserve(bytes: number, signal: AbortSignal | undefined): Promise<string> {
    await Promise.all(this.#releases);
    signal?.throwIfAborted();
    const seconds = Math.min(MOST_S, Math.ceil(LEAST_S + bytes / SLOW_LINE_BYTES_PER_S));
    // A request that is under way is not called off: whether it holds a slot would not be known.
    const asked = this.#reserve(seconds, signal);
    try {
      return await untilAborted(asked, signal);
    } catch (error) {
      void asked.then(
        (id) => this.release(id),
        () => {},
      );
      throw error;
    }
  }

  /** Frees the slot; one that a job has used stays the job's. Nobody waits for it, and it outlives the page. */
  release(id: string): void {
    const send = () => this.http.sendLast("POST", `/api/reservations/${encodeURIComponent(id)}/release`);
    const release = retrying(send, this.times)
      .catch(() => {})
      .finally(() => this.#releases.delete(release));
    this.#releases.add(release);
  }

  async #reserve(seconds: number, signal: AbortSignal | undefined): Promise<string> {
    const startedAt = Date.now() + this.http.clockAhead;
    let ttl_s = seconds;
    let isUnknown = false;
    const ask = async (): Promise<string> => {
      const found = isUnknown ? await this.#newest(startedAt) : undefined;
      if (found) return found;
      try {
        const made = await this.http.json<Reservation>("POST", "/api/reservations", { body: { ttl_s } });
        return made.id;
      } catch (error) {
        if (error instanceof FichaError && error.code === "INVALID_ARGUMENT" && Number(error.members.limit) < ttl_s) {
          ttl_s = Number(error.members.limit);
          return ask();
        }
        isUnknown ||= error instanceof FichaError && [0, 502, 504].includes(error.status);
        throw error;
      }
    };
    return retrying(ask, this.times, signal);
  }

  /** The slot that a request held whose answer was lost. */
  async #newest(since: number): Promise<string | undefined> {
    const query = { state: "active", limit: 1 };
    const [found] = ((await this.http.json("GET", "/api/reservations", { query })) as Page<Reservation>).items;
    const isOwn = found && !found.uploads.length && +found.created_at >= since - CLOCKS_MS;
    return isOwn ? found.id : undefined;
  }
}

/** By how much the server's clock may differ from what is known of it. */
const CLOCKS_MS = 2_000;

/** Whether a call was refused because its reservation has ended; without one it may pass. */
export function isOver(error: unknown): boolean {
  const ended: readonly unknown[] = ["consumed", "expired", "released"];
  return error instanceof FichaError && error.code === "INVALID_STATE" && ended.includes(error.members.state);
}

function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", stop));
  });
}
