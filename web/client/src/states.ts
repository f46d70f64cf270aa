// A job as a person meets it: one of a few phases, each with what there is to show.
import type { FichaError } from "./errors";
import type { Job, JobStatus, WaitReason } from "./types";

/** How the news come: as they happen, asked for every 3 seconds, or not at all. The job goes on in any case. */
export type Connection = "live" | "polling" | "lost";

export interface UploadProgress {
  sent: number;
  total: number;
  /** 0 to 1; 1 also where there is nothing to send. */
  share: number;
}

/**
 * How a job waits.
 *
 * position, of: "#3 of 12"; null where it is not known.
 * estimate: about how many seconds it still waits; null where it is not known.
 * isOvertaken: whether the place got worse since the last time: somebody with a higher plan went ahead.
 * retryAt: when it starts at the earliest, if it waits for a time.
 */
export interface WaitState {
  position: number | null;
  of: number | null;
  estimate: number | null;
  reason: WaitReason | null;
  isOvertaken: boolean;
  retryAt: Date | null;
}

interface Followed {
  job: Job;
  connection: Connection;
  /** Why the job is no longer followed, where the server refused to tell more of it: signed out, or no such job. */
  problem: FichaError | null;
}

/** Nothing is created yet: files are on their way, or the submit itself. */
export interface Uploading {
  phase: "uploading";
  job: null;
  connection: Connection;
  problem: null;
  upload: UploadProgress;
}

export interface Waiting extends Followed {
  phase: "waiting";
  wait: WaitState;
}

/**
 * progress: 1 to 100, null where the tool has not said.
 * partial: what there is of the result so far, as the tool shows it.
 * since: when this run began, by this computer's clock.
 * usual: the seconds that the tool's runs for this account usually take, from and to; null where too few are known.
 */
export interface Running extends Followed {
  phase: "running";
  progress: number | null;
  partial: unknown;
  since: Date;
  usual: readonly [number, number] | null;
}

export interface Ended<Phase extends "done" | "failed" | "cancelled"> extends Followed {
  phase: Phase;
}

export type JobState = Uploading | Waiting | Running | Ended<"done"> | Ended<"failed"> | Ended<"cancelled">;
/** The state of a job that exists. */
export type FollowedState = Exclude<JobState, Uploading>;
export type FinalState = Ended<"done"> | Ended<"failed"> | Ended<"cancelled">;

/** What is known beside the job itself. */
export interface Aside {
  connection: Connection;
  problem: FichaError | null;
  of: number | null;
  isOvertaken: boolean;
  usual: readonly [number, number] | null;
  clockAhead: number;
}

const ENDS: Partial<Record<JobStatus, FinalState["phase"]>> = {
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
};

export function hasEnded(state: JobState): state is FinalState {
  return state.phase === "done" || state.phase === "failed" || state.phase === "cancelled";
}

export function stateOf(job: Job, aside: Aside): FollowedState {
  const { connection, problem, clockAhead } = aside;
  const base = { job, connection, problem };
  const end = ENDS[job.status];
  if (end) return { ...base, phase: end };
  if (job.status === "queued") {
    const place = job.position;
    const wait: WaitState = {
      position: place,
      of: place === null || aside.of === null ? null : Math.max(aside.of, place),
      estimate: job.estimated_wait_s,
      reason: job.waiting_for,
      isOvertaken: aside.isOvertaken,
      retryAt: job.waiting_for === "schedule" && job.scheduled_at ? toHere(job.scheduled_at, clockAhead) : null,
    };
    return { ...base, phase: "waiting", wait };
  }
  const began = job.locked_at ?? job.started_at;
  return {
    ...base,
    phase: "running",
    progress: job.progress > 0 ? job.progress : null,
    partial: job.partial ?? null,
    // Never in the future: clocks differ.
    since: began ? new Date(Math.min(Date.now(), toHere(began, clockAhead).getTime())) : new Date(),
    usual: aside.usual,
  };
}

function toHere(moment: Date, clockAhead: number): Date {
  return new Date(moment.getTime() - clockAhead);
}
