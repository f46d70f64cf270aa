import { FichaError } from "./errors";

/** How long things take, in milliseconds. Only tests change them. */
export interface Times {
  /** Pauses before an upload, a submit or a cancel is sent again. */
  retries: readonly number[];
  /** The longest `Retry-After` that a submit waits for by itself. */
  patience: number;
  /** The first and the longest pause before a stream is opened again; half of it is random. */
  backoff: readonly [number, number];
  /** A stream has to be answered within this. */
  connect: number;
  /** A stream that says nothing for so long is dead: the server sends a comment every 15 seconds. */
  stall: number;
  /** Without a live stream for so long, the job is asked for instead. */
  beforePolling: number;
  /** How often. */
  poll: number;
  /** Without any news for so long, the connection is called lost. */
  lost: number;
  /** A page that is hidden for so long closes its stream. */
  hidden: number;
  /** Partial results are asked for this often at most. */
  refresh: number;
  /** How long the line is asked for this often at most. */
  lineLength: number;
  /** How long runs of a tool usually take is asked for this often at most. */
  usual: number;
}

export const TIMES: Times = {
  retries: [100, 1_000, 3_000, 5_000],
  patience: 10_000,
  backoff: [100, 5_000],
  connect: 30_000,
  stall: 45_000,
  beforePolling: 2_000,
  poll: 3_000,
  lost: 3_000,
  hidden: 30_000,
  refresh: 500,
  lineLength: 15_000,
  usual: 60_000,
};

/** Resolves after a while; rejects as soon as the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Doubles from the first to the longest, and lies anywhere in its upper half. */
export function backoff(failures: number, [first, longest]: readonly [number, number]): number {
  const whole = Math.min(longest, first * 2 ** Math.min(failures, 20));
  return whole / 2 + (Math.random() * whole) / 2;
}

/** Calls until it passes, or fails in a way that another try cannot help, or has been tried often enough. */
export async function retrying<T>(act: () => Promise<T>, times: Times, signal?: AbortSignal): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await act();
    } catch (error) {
      const wait = times.retries[tries];
      const asked = error instanceof FichaError && error.retryable ? (error.retryAfter ?? 0) * 1_000 : Infinity;
      if (wait === undefined || asked > times.patience) throw error;
      await pause(Math.max(wait, asked), signal);
    }
  }
}
