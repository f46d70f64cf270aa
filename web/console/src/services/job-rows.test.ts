import { expect, test } from "vitest";
import { jobNumber } from "../../fake/data";
import { type Job, mergeRows, timesOf } from "./job-rows";

const NOW = Date.now();
const job = (number: number, change: Partial<Job> = {}): Job => ({ ...jobNumber(number, NOW), ...change });

test("a poll changes rows in place and counts new jobs instead of moving rows", () => {
  const shown = [job(2), job(3)];
  const polled = [job(0), job(1), job(2, { progress: 77 }), job(3)];
  const { rows, fresh } = mergeRows(shown, [polled]);
  expect(rows.map((row) => row.job.id)).toEqual(shown.map((one) => one.id));
  expect(rows[0]?.job.progress).toBe(77);
  expect(fresh).toBe(2);
});

test("a row that the newest answer no longer has is told as changed, one beyond that answer is not", () => {
  const shown = [job(1), job(2), job(3), job(4)];
  const { rows } = mergeRows(shown, [[job(1), job(3)]]);
  expect(rows.map((row) => row.isGone)).toEqual([false, true, false, false]);
});

test("without an answer nothing changes", () => {
  expect(mergeRows([job(1)], [])).toEqual({ rows: [{ job: job(1), isGone: false }], fresh: 0 });
});

test("clocks that differ never give a time below zero", () => {
  const ahead = new Date(NOW + 60_000).toISOString();
  const times = timesOf(
    job(5, { status: "running", waited_in_queue: -3, started_at: ahead, finished_at: null }),
    new Date(NOW),
  );
  expect(times).toEqual({ waited: 0, ran: 0 });
});
