// A job's state in words: what it is, why, and what became of the money. And each event of its history as a line. Pure.
import type { Schemas } from "./api";
import { formatClock, formatCredits, formatDuration, plural } from "./format";
import { timesOf } from "./job-rows";
import type { JobAct, JobPage } from "./shapes";

type Job = Schemas["JobView"];
type Event = Schemas["EventView"];

export interface StateWords {
  /** "Waiting, third in line" */
  headline: string;
  /** Sentences: why, since when, what is wrong. */
  why: string[];
  /** Something keeps it from going on that a person should look at. */
  isTrouble: boolean;
}

export function stateWords(page: Pick<JobPage, "job" | "live_workers" | "events">, now: Date): StateWords {
  const { job } = page;
  const { waited, ran } = timesOf(job, now);
  const why: string[] = [];
  let isTrouble = false;
  const isOver = job.finished_at !== null;
  if (!isOver && page.live_workers === 0) {
    isTrouble = true;
    why.push(`No live worker for the pool ${job.pool}: nothing takes this job until one starts.`);
  }
  switch (job.status) {
    case "queued": {
      why.unshift(waitingWords(job));
      why.push(`In the queue for ${formatDuration(waited ?? 0)}.`);
      if (job.attempts > 0)
        why.push(
          `${job.attempts} of ${plural(job.max_attempts, "attempt")} failed: ${job.error ?? "no error was kept"}.`,
        );
      if (job.recoveries > 0) why.push(`Recovered ${plural(job.recoveries, "time")} after its worker was lost.`);
      return { headline: "Waiting", why, isTrouble };
    }
    case "starting":
    case "running": {
      const left = secondsUntil(job.lock_expires_at, now);
      if (left !== null && left < 0) {
        isTrouble = true;
        why.unshift(
          `Its lease ran out ${formatDuration(-left)} ago: the worker is silent, and the job will be recovered.`,
        );
      }
      if (job.locked_by === null && job.provider_ref !== null)
        why.push(`The provider has it, under ${job.provider_ref}.`);
      else if (job.locked_by !== null) why.push(`On ${job.locked_by}.`);
      if (ran !== null) why.push(`It has run for ${formatDuration(ran)} after waiting ${formatDuration(waited ?? 0)}.`);
      const deadline = secondsUntil(job.deadline_at, now);
      if (deadline !== null)
        why.push(deadline > 0 ? `Its time is up in ${formatDuration(deadline)}.` : "Its time is up.");
      const doing = job.checkpoint === null ? "" : ` ${job.checkpoint}`;
      const progress = job.progress > 0 ? `, ${job.progress} %` : "";
      return { headline: `${job.status === "starting" ? "Starting" : "Running"}${doing}${progress}`, why, isTrouble };
    }
    case "completed": {
      const whole = wholeOf(page.events) ?? job.units;
      const isPartial = job.delivered !== null && job.delivered < whole;
      why.push(`Ran ${formatDuration(ran ?? 0)} after waiting ${formatDuration(waited ?? 0)}.`);
      if (job.refunded > 0) why.push(`${formatCredits(job.refunded)} returned.`);
      return { headline: isPartial ? `Completed: ${job.delivered} of ${whole} made` : "Completed", why, isTrouble };
    }
    case "failed": {
      why.push(job.error ?? "No error was kept.");
      why.push(
        `After ${job.attempts} of ${plural(job.max_attempts, "attempt")}${job.recoveries > 0 ? ` and ${plural(job.recoveries, "recovery", "recoveries")}` : ""}.`,
      );
      why.push(moneyBack(job));
      if (job.user_error !== null) why.push(`Its owner reads: ${job.user_error}`);
      return { headline: job.is_dead_letter ? "Failed, a dead letter" : "Failed", why, isTrouble: true };
    }
    case "cancelled": {
      if (job.error !== null) why.push(sentence(job.error));
      why.push(moneyBack(job));
      return { headline: "Cancelled", why, isTrouble };
    }
  }
}

/** Of how many parts a handler said that it made some: only its end tells. */
function wholeOf(events: readonly Event[]): number | null {
  const of: unknown = events.findLast((event) => event.kind === "completed")?.data.of;
  return typeof of === "number" ? of : null;
}

function waitingWords(job: Job): string {
  switch (job.waiting_for) {
    case "place":
      if (job.position === null) return "It waits for its turn.";
      return `It is #${job.position} in line${job.estimated_wait_s === null ? ". No estimate yet." : `, ${aboutWords(job.estimated_wait_s)}.`}`;
    case "pool_full":
      return `It is next. All slots of the pool ${job.pool} are taken.`;
    case "tool_paused":
      return `The tool ${job.tool} is paused. Its order is kept.`;
    case "pool_paused":
      return `The pool ${job.pool} is paused. Its place is kept.`;
    case "account_limit":
      return `${job.account} already runs as many jobs as the plan ${job.plan} allows. It starts when one of them ends.`;
    case "schedule":
      return job.scheduled_at === null
        ? "Its time has not come."
        : `It starts at ${formatClock(new Date(job.scheduled_at))} at the earliest.`;
    case "equal_job":
      return "An equal job runs already; this one takes over its result.";
    default:
      return "It waits for its turn.";
  }
}

/** "about 40 s": estimates are rough, so they are rounded up to 10 seconds, then to minutes. */
export function aboutWords(seconds: number): string {
  const rough = seconds < 60 ? Math.max(10, Math.ceil(seconds / 10) * 10) : Math.ceil(seconds / 60) * 60;
  return `about ${formatDuration(rough)}`;
}

function moneyBack(job: Job): string {
  if (job.charged === 0) return "Nothing was charged.";
  if (job.refunded === 0) return `${formatCredits(job.charged)} charged, nothing returned.`;
  return `${formatCredits(job.refunded)} of ${job.charged} returned.`;
}

function secondsUntil(at: string | null, now: Date): number | null {
  return at === null ? null : (Date.parse(at) - now.getTime()) / 1000;
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

export interface EventLine {
  key: string;
  kind: string;
  hue: "waiting" | "running" | "done" | "failed";
  words: string;
  /** More, where there is: an error, a log line. */
  more: string | null;
  at: string;
  /** Seconds since the event before; never below 0, whatever the clocks say. */
  after: number;
  event: Event;
}

/** The history as lines, oldest first. Reports of progress in a row become one line. */
export function eventLines(events: readonly Event[]): EventLine[] {
  const lines: EventLine[] = [];
  let before: number | null = null;
  for (const event of events) {
    const at = Date.parse(event.at);
    const after: number = before === null ? 0 : Math.max(0, (at - before) / 1000);
    before = at;
    const last = lines.at(-1);
    if (last && PROGRESS.has(event.kind) && PROGRESS.has(last.kind)) {
      last.words = `${last.words.split(" → ")[0]} → ${progressOf(event)}`;
      last.at = event.at;
      last.after += after;
      last.event = event;
      continue;
    }
    lines.push({ key: String(event.number), kind: event.kind, at: event.at, after, event, ...wordsOfEvent(event) });
  }
  return lines;
}

const PROGRESS = new Set(["progress", "partial"]);

function progressOf(event: Event): string {
  return `${textOf(event.data, "progress") ?? "?"} %`;
}

function wordsOfEvent(event: Event): Pick<EventLine, "hue" | "words" | "more"> {
  const data = event.data as Record<string, unknown>;
  const get = (name: string) => textOf(data, name);
  const error = get("error");
  const refunded = Number(data.refunded ?? 0);
  const back = refunded > 0 ? `, ${formatCredits(refunded)} returned` : "";
  switch (event.kind) {
    case "submitted":
      return line("waiting", get("requeue_of") ? "Submitted again from a dead letter" : "Submitted and charged");
    case "reused":
      return line("done", "Answered by an earlier result of the same content");
    case "claimed":
      return line("running", `Claimed by ${get("worker") ?? "a worker"}`);
    case "started":
      return line("running", "Started");
    case "checkpoint":
      return line("running", `Checkpoint ${get("name") ?? ""}${get("progress") ? `, ${get("progress")} %` : ""}`);
    case "step":
      return line("running", `Step ${get("name") ?? ""} stored`);
    case "progress":
      return line("running", `Progress ${progressOf(event)}`);
    case "partial":
      return line("running", `Part of the result shown, ${progressOf(event)}`);
    case "log":
      return line("waiting", "Log", get("text"));
    case "requested":
      return line("running", `Start sent to ${get("provider") ?? "the provider"}`, get("target"));
    case "accepted":
      return line("running", `Handed to the provider${get("ref") ? ` under ${get("ref")}` : ""}`);
    case "retried":
      return line("failed", `Attempt ${get("attempts") ?? ""} failed; runs again${clockOf(data.due_at)}`, error);
    case "recovered":
      return line("failed", `Lost with ${get("worker") ?? "its worker"}; back in the queue`, get("reason"));
    case "returned":
      return line("waiting", `Handed back by ${get("worker") ?? "its worker"}, which stopped`, get("reason"));
    case "completed":
      return line(
        "done",
        data.of && data.delivered !== data.of ? `Completed: ${get("delivered")} of ${get("of")}${back}` : "Completed",
      );
    case "failed":
      return line("failed", `Failed for good${data.dead ? ", now a dead letter" : ""}${back}`, error);
    case "cancelled":
      return line("waiting", `Cancelled${back}`, get("reason"));
    case "refunded":
      return line("waiting", `Refunded by an operator${back}`);
    case "late":
      return line("waiting", "A finish came too late and changed nothing", error ?? get("ending"));
    case "callback":
      return line(
        data.verdict === "forged" ? "failed" : "running",
        `The provider called back: ${get("verdict") ?? "unread"}`,
        get("told"),
      );
    case "requeued":
      return line("waiting", `Runs again as ${get("as_job") ?? "another job"}`);
    case "discarded":
      return line("waiting", "Discarded from the dead letters");
    case "removed":
      return line("waiting", "Removed from the library by its owner");
    default:
      return line("waiting", event.kind);
  }
}

function line(hue: EventLine["hue"], words: string, more: string | null = null) {
  return { hue, words: words.trim(), more };
}

function textOf(data: Record<string, unknown>, name: string): string | null {
  const value = data[name];
  return value === null || value === undefined || value === ""
    ? null
    : typeof value === "object"
      ? JSON.stringify(value)
      : String(value);
}

/** Times in an event's data are microseconds since 1970. What is no time is left out. */
function clockOf(at: unknown): string {
  const time = new Date(typeof at === "number" ? at / 1000 : typeof at === "string" ? at : Number.NaN);
  return Number.isNaN(time.getTime()) ? "" : ` at ${formatClock(time)}`;
}

export interface ActWords {
  button: string;
  title: string;
  confirm: string;
  after: string;
  money?: { verb: string; credits: number };
  isDangerous: boolean;
  reason: "none" | "optional" | "required";
}

/** What a button of the job page asks first. */
export function actWords(act: JobAct, job: Job): ActWords {
  const open = job.charged - job.refunded;
  switch (act) {
    case "cancel":
      return {
        button: "Cancel",
        title: "Cancel this job?",
        confirm: "Cancel the job",
        after: job.status === "queued" ? "It leaves the queue." : "Its handler is told to stop.",
        money: { verb: `Cancel gives ${job.account} back`, credits: open },
        isDangerous: true,
        reason: "optional",
      };
    case "requeue":
      return {
        button: "Requeue",
        title: "Run this job again?",
        confirm: "Requeue the job",
        after: "A new job with the same payload is submitted. This one leaves the dead letters.",
        money: { verb: `Requeue charges ${job.account}`, credits: job.cost },
        isDangerous: false,
        reason: "none",
      };
    case "discard":
      return {
        button: "Discard",
        title: "Discard this dead letter?",
        confirm: "Discard it",
        after: "It leaves the dead letters and cannot be requeued. The job and its history stay.",
        isDangerous: true,
        reason: "none",
      };
    case "recover":
      return {
        button: "Recover",
        title: "Take this job from its worker?",
        confirm: "Recover the job",
        after: "If its lease has run out, it goes back to the queue and runs again from its last checkpoint.",
        isDangerous: false,
        reason: "none",
      };
    case "refund":
      return {
        button: "Refund",
        title: "Give the credits back?",
        confirm: `Refund ${formatCredits(open)}`,
        after: "What it was charged goes back, once. Its owner reads the reason in the ledger.",
        money: { verb: `Refund gives ${job.account} back`, credits: open },
        isDangerous: true,
        reason: "required",
      };
  }
}

/** "Half of the last 50 runs took up to 12 s; the slowest 58 s; 6 failed. This one took 9 s." */
export function runsSummary(runs: JobPage["recent_runs"], own: number | null): string {
  if (runs.length === 0) return "No earlier run of this tool is known.";
  const sorted = runs.map((run) => run.run_s).sort((a, b) => a - b);
  const half = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  const slowest = sorted.at(-1) ?? 0;
  const failed = runs.filter((run) => run.status === "failed").length;
  const mine = own === null ? "" : ` This one: ${formatDuration(own)}.`;
  if (runs.length === 1) return `The last run took ${formatDuration(half)}${failed ? " and failed" : ""}.${mine}`;
  return `Half of the last ${plural(runs.length, "run")} took up to ${formatDuration(half)}, the slowest ${formatDuration(slowest)}; ${failed} failed.${mine}`;
}
