import { expect, test } from "vitest";
import { fullJobPage, jobNumber } from "../../fake/data";
import type { Schemas } from "./api";
import { formatClock } from "./format";
import { actWords, eventLines, runsSummary, stateWords } from "./job-words";

type Job = Schemas["JobView"];

const NOW = new Date("2026-11-16T14:00:00Z");
const at = (seconds: number) => new Date(NOW.getTime() + seconds * 1000).toISOString();
const base: Job = {
  ...jobNumber(3, NOW.getTime()),
  tool: "upscale",
  account: "ana",
  plan: "pro",
  pool: "gpu",
  cost: 4,
  charged: 4,
  refunded: 0,
  recoveries: 0,
};

const words = (change: Partial<Job>, liveWorkers = 1) =>
  stateWords({ job: { ...base, ...change }, events: [], live_workers: liveWorkers }, NOW);
const waiting = (change: Partial<Job>) =>
  words({ status: "queued", attempts: 0, created_at: at(-12), started_at: null, finished_at: null, ...change }).why[0];

test("each reason to wait is said in words", () => {
  expect(waiting({ waiting_for: "place", position: 3, estimated_wait_s: 34 })).toBe("It is #3 in line, about 40 s.");
  expect(waiting({ waiting_for: "place", position: 1, estimated_wait_s: 0 })).toBe("It is #1 in line, about 10 s.");
  expect(waiting({ waiting_for: "place", position: 3, estimated_wait_s: null })).toBe(
    "It is #3 in line. No estimate yet.",
  );
  expect(waiting({ waiting_for: "pool_full" })).toBe("It is next. All slots of the pool gpu are taken.");
  expect(waiting({ waiting_for: "tool_paused" })).toBe("The tool upscale is paused. Its order is kept.");
  expect(waiting({ waiting_for: "pool_paused" })).toBe("The pool gpu is paused. Its place is kept.");
  expect(waiting({ waiting_for: "account_limit" })).toContain("as many jobs as the plan pro allows");
  expect(waiting({ waiting_for: "schedule", scheduled_at: at(300) })).toBe(
    `It starts at ${formatClock(new Date(at(300)))} at the earliest.`,
  );
  expect(waiting({ waiting_for: "equal_job" })).toContain("An equal job");
});

test("a pool without a live worker is said plainly, and only while the job is not over", () => {
  const queued = words({ status: "queued", attempts: 0, finished_at: null, waiting_for: "place" }, 0);
  expect(queued.isTrouble).toBe(true);
  expect(queued.why.join(" ")).toContain("No live worker for the pool gpu");
  expect(words({ status: "completed", finished_at: at(0) }, 0).why.join(" ")).not.toContain("No live worker");
});

test("a lease that ran out is trouble", () => {
  const told = words({
    status: "running",
    started_at: at(-60),
    finished_at: null,
    lock_expires_at: at(-20),
    locked_by: "w1",
  });
  expect(told.isTrouble).toBe(true);
  expect(told.why[0]).toContain("Its lease ran out 20 s ago");
});

test("an end says what became of the money", () => {
  expect(
    words({
      status: "failed",
      finished_at: at(0),
      error: "no",
      attempts: 3,
      max_attempts: 3,
      refunded: 4,
      user_error: null,
    }).why,
  ).toEqual(["no", "After 3 of 3 attempts.", "4 credits of 4 returned."]);
  const partial = words({
    status: "completed",
    started_at: at(-9),
    finished_at: at(0),
    delivered: 3,
    units: 4,
    refunded: 1,
  });
  expect(partial.headline).toBe("Completed: 3 of 4 made");
  expect(partial.why).toContain("1 credit returned.");
  expect(words({ status: "cancelled", finished_at: at(0), error: null, charged: 0 }).why).toEqual([
    "Nothing was charged.",
  ]);
});

test("every event has a line, and reports of progress in a row are one", () => {
  const event = (number: number, kind: string, data: object, seconds: number): Schemas["EventView"] => ({
    number,
    job_id: "j",
    kind,
    data: data as Record<string, never>,
    at: at(seconds),
  });
  const lines = eventLines([
    event(1, "submitted", {}, 0),
    event(2, "progress", { progress: 10 }, 2),
    event(3, "progress", { progress: 40 }, 5),
    event(4, "partial", { progress: 60 }, 4),
    event(5, "failed", { error: "no", refunded: 4, dead: true }, 9),
    event(6, "something_new", {}, 9),
  ]);
  expect(lines.map((line) => line.words)).toEqual([
    "Submitted and charged",
    "Progress 10 % → 60 %",
    "Failed for good, now a dead letter, 4 credits returned",
    "something_new",
  ]);
  expect(lines.every((line) => line.after >= 0)).toBe(true);
  const due = Date.parse("2026-11-16T14:05:00Z");
  const retried = (dueAt: unknown) => eventLines([event(1, "retried", { attempts: 1, due_at: dueAt }, 0)])[0]?.words;
  expect(retried(due * 1000)).toBe(`Attempt 1 failed; runs again at ${formatClock(new Date(due))}`);
  expect(retried(null)).toBe("Attempt 1 failed; runs again");
  expect(retried("soon")).toBe("Attempt 1 failed; runs again");
});

test("an act names who pays or gets what", () => {
  expect(actWords("requeue", base).money).toEqual({ verb: "Requeue charges ana", credits: 4 });
  expect(actWords("refund", { ...base, refunded: 1 })).toMatchObject({
    confirm: "Refund 3 credits",
    reason: "required",
  });
  expect(actWords("discard", base).money).toBeUndefined();
});

test("earlier runs are summed up in a sentence", () => {
  const page = fullJobPage(jobNumber(50, NOW.getTime()), NOW.getTime());
  expect(runsSummary(page.recent_runs, 9)).toMatch(
    /^Half of the last 50 runs took up to .+, the slowest .+; \d+ failed\. This one: 9 s\.$/,
  );
  const one = page.recent_runs.filter((run) => run.status === "failed").slice(0, 1);
  expect(
    runsSummary(
      one.map((run) => ({ ...run, run_s: 12 })),
      9,
    ),
  ).toBe("The last run took 12 s and failed. This one: 9 s.");
  expect(runsSummary([], null)).toBe("No earlier run of this tool is known.");
});
