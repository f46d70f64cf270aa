// The rows of the jobs list. What is shown stays where it is: a poll changes rows in place, and new jobs are only counted
// until the reader asks for them.
import type { Schemas } from "./api";

export type Job = Schemas["JobView"];

export interface JobRow {
  job: Job;
  /** The job was here and the newest answer no longer has it: it has changed and does not match any more. */
  isGone: boolean;
}

/**
 * The rows to show, and how many newer jobs the last poll found.
 *
 * shown: what the reader was given, the newest first. polls: newer answers of parts of that list.
 */
export function mergeRows(
  shown: readonly Job[],
  polls: readonly (readonly Job[])[],
): { rows: JobRow[]; fresh: number } {
  const newest = new Map<string, Job>();
  const isCovered = (id: string) =>
    polls.some((page) => {
      const first = page[0]?.id;
      const last = page.at(-1)?.id;
      return first !== undefined && last !== undefined && id <= first && id >= last;
    });
  for (const page of polls) for (const job of page) newest.set(job.id, job);
  const known = new Set(shown.map((job) => job.id));
  const first = shown[0]?.id;
  let fresh = 0;
  for (const id of newest.keys()) if (!known.has(id) && (first === undefined || id > first)) fresh += 1;
  const rows = shown.map((job): JobRow => {
    const now = newest.get(job.id);
    return { job: now ?? job, isGone: now === undefined && isCovered(job.id) };
  });
  return { rows, fresh };
}

/** How long a job waited, and how long it ran, in seconds; null where it has not. Clocks of machines differ: never below 0. */
export function timesOf(job: Job, now: Date): { waited: number | null; ran: number | null } {
  const at = (value: string | null): number | null => (value === null ? null : Date.parse(value) / 1000);
  const started = at(job.started_at);
  const ended = at(job.finished_at) ?? (started === null ? null : now.getTime() / 1000);
  const waited =
    job.status === "queued" && job.finished_at === null
      ? now.getTime() / 1000 - Date.parse(job.created_at) / 1000
      : job.waited_in_queue;
  return {
    waited: Math.max(0, waited),
    ran: started === null || ended === null ? null : Math.max(0, ended - started),
  };
}

/** How many ids a search text holds. */
export const IDS_MAX = 100;
