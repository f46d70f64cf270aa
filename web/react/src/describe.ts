// What is said of a state: the words, what they mean for the eye, and what a screen reader speaks.
import type { JobState, Waiting } from "@ficha/client";
import { isLate } from "./rounding";
import type { Words } from "./words";

export type Tone = "waiting" | "running" | "done" | "failed" | "cancelled" | "paused";

export interface Described {
  text: string;
  /** A second sentence, where there is one. */
  note: string | null;
  tone: Tone;
  /** 0 to 100; null for a bar without a value; undefined for none. */
  bar: number | null | undefined;
  /** Whether what is shown is old. */
  isLost: boolean;
  /** What is spoken when it changes: never a timer. */
  spoken: string;
  /** Changes of the place alone are spoken now and then, other changes at once. */
  kind: string;
  canCancel: boolean;
}

export interface Around {
  words: Words;
  /** Now, in milliseconds. */
  now: number;
  /** The credits that are left, where that is certain. */
  balance: number | null;
  /** How many jobs the plan runs at once, where it is known. */
  atOnce: number | null;
  making: string;
}

export function describe(state: JobState, around: Around): Described {
  const told = describePhase(state, around);
  const { words } = around;
  if (state.problem) {
    const text = state.problem.status === 401 ? words.signedOut : words.notFound;
    return {
      ...told,
      text,
      note: told.text,
      spoken: text,
      kind: "problem",
      isLost: true,
      canCancel: false,
      bar: undefined,
    };
  }
  if (state.connection === "lost" && told.canCancel) {
    return { ...told, text: words.lost, note: told.text, spoken: words.lost, kind: "lost", isLost: true };
  }
  return told;
}

function describePhase(state: JobState, around: Around): Described {
  const { words } = around;
  const base = { note: null, bar: undefined, isLost: false, canCancel: false, kind: state.phase };
  switch (state.phase) {
    case "uploading": {
      const { share, total } = state.upload;
      const percent = Math.floor(share * 100);
      const isSending = total === 0 || share >= 1;
      const text = isSending ? words.sending : words.uploading(percent);
      const bar = isSending ? null : percent;
      return { ...base, text, spoken: isSending ? text : words.uploading(0), tone: "running", bar, canCancel: true };
    }
    case "waiting":
      return describeWaiting(state, around);
    case "running": {
      const seconds = Math.max(0, (around.now - state.since.getTime()) / 1_000);
      const isSlow = isLate(seconds, state.usual);
      const going =
        state.progress === null
          ? `${around.making}, ${words.elapsed(seconds, state.usual)}`
          : words.running(around.making, state.progress);
      const text = isSlow ? words.late : going;
      const spoken = isSlow ? words.late : `${around.making}.`;
      const kind = isSlow ? "late" : "running";
      const note = isSlow && state.progress !== null ? going : null;
      return { ...base, text, note, spoken, kind, tone: "running", bar: state.progress, canCancel: true };
    }
    case "done": {
      const { delivered, units, refunded } = state.job;
      const isPart = delivered !== null && delivered < units;
      const text = isPart ? words.donePartly(delivered, units, refunded) : words.done;
      return { ...base, text, spoken: text, tone: "done" };
    }
    case "failed": {
      const { user_error: why, refunded } = state.job;
      const spoken = words.failed(why, refunded, null);
      return { ...base, text: words.failed(why, refunded, around.balance), spoken, tone: "failed" };
    }
    case "cancelled": {
      const text = words.cancelled(state.job.user_error, state.job.refunded);
      return { ...base, text, spoken: text, tone: "cancelled" };
    }
  }
}

function describeWaiting(state: Waiting, { words, atOnce }: Around): Described {
  const { wait, job } = state;
  const is = (text: string, more: Partial<Described> = {}): Described => ({
    text,
    spoken: text,
    note: null,
    tone: "waiting",
    bar: undefined,
    isLost: false,
    kind: `waiting ${wait.reason}`,
    canCancel: true,
    ...more,
  });
  switch (wait.reason) {
    case "account_limit":
      return is(words.accountLimit(atOnce));
    case "tool_paused":
    case "pool_paused":
      return is(words.poolPaused, { tone: "paused" });
    case "equal_job":
      return is(words.equalJob);
    case "schedule": {
      const attempt = job.attempts > 0 ? job.attempts + 1 : null;
      if (wait.retryAt) return is(words.schedule(wait.retryAt, attempt, job.max_attempts));
      return is(words.waiting);
    }
    case "pool_full":
      if (wait.position === null || wait.position === 1) return is(words.poolFull);
  }
  if (wait.position === null) return is(words.waiting);
  return is(words.place(wait.position, wait.of, wait.estimate), {
    kind: `waiting ${wait.isOvertaken}`,
    note: wait.isOvertaken ? words.overtaken : null,
  });
}
