import type { Follower, JobListener } from "./follow";
import { type FinalState, type FollowedState, hasEnded } from "./states";
import type { Finish, Job, Receipt } from "./types";

/**
 * A job that was submitted. It is followed as soon as somebody asks for `done`, listens with `on` or iterates over it;
 * `state` is how it was when it was last heard of.
 */
export interface JobHandle extends AsyncIterable<FollowedState> {
  readonly id: string;
  readonly receipt: Receipt;
  readonly state: FollowedState;
  /** Its end. Rejected with `FichaError` only if the server refuses to tell of it. */
  readonly done: Promise<FinalState>;
  cancel(): Promise<Finish>;
  /** Calls the listener now and whenever something changes. Returns how to stop. */
  on(listener: JobListener): () => void;
}

export function handleOf(
  follow: (job: Job) => Follower,
  first: FollowedState,
  receipt: Receipt,
  cancel: () => Promise<Finish>,
): JobHandle {
  let latest = first;
  let done: Promise<FinalState> | undefined;
  const on = (listener: JobListener): (() => void) =>
    follow(latest.job).listen((state) => {
      latest = state;
      listener(state);
    });
  return {
    id: receipt.job_id,
    receipt,
    get state() {
      return latest;
    },
    get done() {
      if (!done) {
        if (hasEnded(latest)) done = Promise.resolve(latest);
        else {
          const follower = follow(latest.job);
          done = follower.done;
          follower.listen((state) => {
            latest = state;
          });
        }
      }
      return done;
    },
    cancel,
    on,
    [Symbol.asyncIterator]: () => states(() => follow(latest.job)),
  };
}

/** Each state in turn, to the last. Who reads slowly gets the newest, not all. */
export async function* states(follow: () => Follower): AsyncGenerator<FollowedState, void> {
  const follower = follow();
  let next: FollowedState | undefined;
  let wake: (() => void) | undefined;
  let problem: unknown;
  const leave = follower.listen((state) => {
    next = state;
    wake?.();
  });
  follower.done.catch((error: unknown) => {
    problem = error;
    wake?.();
  });
  try {
    for (;;) {
      const state = next;
      next = undefined;
      if (state) {
        yield state;
        if (hasEnded(state)) return;
      } else if (problem) throw problem;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  } finally {
    leave();
  }
}
