// What the fake server answers: made from a seed, so that a picture of a page is the same tomorrow, but with times that
// end now, so that it looks alive. It holds no rules of the real server; it only has the shapes.
import type { Schemas } from "../src/services/api";
import type { JobPage, Overview, Range, Series } from "../src/services/shapes";

type Job = Schemas["JobView"];

export const TOOLS = ["upscale", "portrait", "video", "embed"] as const;
export const PLANS = ["free", "pro", "team"] as const;
export const POOLS = ["gpu", "cpu", "api"] as const;
const POOL_OF: Record<string, string> = { upscale: "gpu", portrait: "api", video: "gpu", embed: "cpu" };
const COST: Record<string, number> = { upscale: 4, portrait: 8, video: 40, embed: 1 };
const ACCOUNTS = ["ana", "bruno", "carla", "studio-nine", "davi", "elisa", "<script>alert(1)</script>", "fabio"];
const ERRORS = [
  "the provider timed out after 60 s",
  "CUDA out of memory: tried to allocate 2.30 GiB",
  "the picture is larger than 8192 pixels",
  "ConnectionError: provider 'flux' closed the connection",
];

/** Mulberry32: small, and good enough for pictures. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();

function idOf(number: number): string {
  const hex = (0x0190_0000_0000 + number * 7919).toString(16).padStart(12, "0");
  const tail = Math.imul(number, 2654435761) >>> 0;
  const end = (tail * 65521).toString(16).padStart(12, "0").slice(-12);
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${(tail & 0xfff).toString(16).padStart(3, "0")}-8${((tail >>> 12) & 0xfff).toString(16).padStart(3, "0")}-${end}`;
}

const COUNT = 2400;
const BORN = Date.now();

/** Job number 0 is the newest at the start; each 7 seconds another one is submitted. */
export function jobNumber(number: number, now: number): Job {
  const chance = random(number + 12345);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(chance() * list.length)] as T;
  const tool = pick(TOOLS);
  const created = BORN - number * 7_000;
  const age = (now - created) / 1000;
  const wait = 3 + chance() * 40;
  const run = tool === "video" ? 40 + chance() * 60 : 4 + chance() * 22;
  const fate = chance();
  const account = pick(ACCOUNTS);
  const plan = pick(PLANS);
  const isQueued = age < wait || (number < 40 && number % 3 === 0);
  const isRunning = !isQueued && (age < wait + run || number === 7 || number === 10);
  const status: Job["status"] = isQueued
    ? "queued"
    : isRunning
      ? "running"
      : fate < 0.1
        ? "failed"
        : fate < 0.15
          ? "cancelled"
          : "completed";
  const started = isQueued ? null : created + wait * 1000;
  const finished = isQueued || isRunning ? null : created + (wait + run) * 1000;
  const cost = COST[tool] ?? 1;
  const units = tool === "portrait" ? 4 : 1;
  const isPartial = status === "completed" && tool === "portrait" && fate > 0.9;
  const waitingFor =
    (["place", "place", "pool_full", "account_limit", "schedule"] as const)[Math.abs(number) % 5] ?? "place";
  return {
    id: idOf(1_000_000 - number),
    account,
    plan,
    is_first: fate > 0.97,
    session: chance() > 0.6 ? `s-${Math.floor(chance() * 900)}` : null,
    tool,
    pool: POOL_OF[tool] ?? "gpu",
    status,
    position: isQueued && waitingFor === "place" ? (Math.abs(number) % 12) + 1 : null,
    estimated_wait_s: isQueued && waitingFor === "place" ? ((Math.abs(number) % 12) + 1) * 6 : null,
    waiting_for: isQueued ? waitingFor : null,
    waited_in_queue: isQueued ? age : wait,
    priority: plan === "free" ? 50 : 10,
    cost,
    charged: cost,
    refunded: status === "failed" || status === "cancelled" ? cost : isPartial ? cost / 4 : 0,
    units,
    delivered: isPartial ? 3 : status === "completed" ? units : null,
    payload: null,
    result: null,
    error: status === "failed" ? pick(ERRORS) : status === "cancelled" ? "cancelled by its owner" : null,
    user_error: status === "failed" ? "The picture could not be made." : null,
    attempts: status === "failed" ? 3 : isQueued ? 0 : 1,
    max_attempts: 3,
    recoveries: fate > 0.95 ? 1 : 0,
    late_finishes: 0,
    callbacks: tool === "portrait" && !isQueued ? 1 : 0,
    epoch: isQueued ? 0 : 1,
    checkpoint: isRunning ? "UPSCALING" : null,
    progress: isRunning ? Math.min(95, Math.round(((age - wait) / run) * 100)) : status === "completed" ? 100 : 0,
    resume_data: null,
    partial: null,
    locked_by: isRunning ? `gpu-${(number % 3) + 1}.worker` : null,
    locked_at: isRunning && started ? iso(started) : null,
    lock_expires_at: isRunning ? iso(now + 24_000) : null,
    last_heartbeat_at: isRunning ? iso(now - 6_000) : null,
    provider_ref: tool === "portrait" && !isQueued ? `flux-${number}` : null,
    provider_cost: tool === "portrait" && finished ? 0.0312 : null,
    batch: chance() > 0.9 ? idOf(500 + (number % 5)) : null,
    correlation_id: `req-${(number * 7919).toString(36)}`,
    traceparent: null,
    requeue_of: null,
    is_dead_letter: status === "failed" && fate < 0.06,
    created_at: iso(created),
    scheduled_at: isQueued && waitingFor === "schedule" ? iso(now + 125_000) : null,
    deadline_at: isRunning && started ? iso(started + 600_000) : null,
    started_at: started ? iso(started) : null,
    finished_at: finished ? iso(finished) : null,
    removed_at: null,
    payload_removed_at: null,
    submitted_by: null,
    part_of: null,
    parts: null,
  };
}

/** All jobs, the newest first. */
export function allJobs(now: number): Job[] {
  const newer = Math.floor((now - BORN) / 7_000);
  return Array.from({ length: COUNT + newer }, (_, index) => jobNumber(index - newer, now));
}

const SPANS: Record<Range, [number, number]> = {
  "1h": [3600, 60],
  "6h": [21_600, 300],
  "24h": [86_400, 900],
  "7d": [604_800, 7200],
  "30d": [2_592_000, 28_800],
};

export function fullOverview(range: Range, now: number): Overview {
  const [span, step] = SPANS[range];
  const count = span / step;
  const last = Math.floor(now / 1000 / step) * step;
  const times = Array.from({ length: count }, (_, index) => last - (count - 1 - index) * step);
  const wave = (at: number, seed: number, size: number): number => {
    const chance = random(Math.floor(at / step) * 31 + seed);
    const day = 1 + 0.55 * Math.sin((at / 86_400) * Math.PI * 2 - 1.4);
    const burst = Math.sin(at / (step * 7) + seed) > 0.86 ? 1.9 : 1;
    return Math.max(0, Math.round(size * day * burst * (0.7 + 0.6 * chance())));
  };
  const series = (seed: number, size: number): Series[] =>
    PLANS.flatMap((plan, p) =>
      TOOLS.map((tool, t) => ({
        plan,
        tool,
        values: times.map((at) => wave(at, seed + p * 17 + t * 5, (size * (p === 0 ? 1.4 : 0.7)) / (t + 1))),
      })),
    );
  const perStep = step / 60;
  const completed = series(3, 4 * perStep);
  const failed = series(4, 0.4 * perStep).map((one) => ({
    ...one,
    values: one.values.map((v) => (v > 1 ? v - 1 : 0)),
  }));
  const sum = (list: Series[], index: number): number => list.reduce((all, one) => all + (one.values[index] ?? 0), 0);
  const charged = times.map((_, i) => sum(completed, i) * 5 + sum(failed, i) * 5);
  return {
    as_of: iso(now),
    range,
    step_s: step,
    times: times.map((at) => iso(at * 1000)),
    depth: series(1, 5),
    submitted: series(2, 4.4 * perStep),
    completed,
    failed,
    cancelled: series(5, 0.2 * perStep),
    wait_p50: times.map((at, i) => (i < 3 ? null : 6 + wave(at, 8, 5))),
    wait_p95: times.map((at, i) => (i < 3 ? null : 24 + wave(at, 9, 18))),
    run_p50: times.map((at, i) => (i < 3 ? null : 11 + wave(at, 10, 2))),
    run_p95: times.map((at, i) => (i < 3 ? null : 48 + wave(at, 11, 12))),
    charged,
    refunded: times.map((_, i) => sum(failed, i) * 5),
    granted: times.map((_, i) => (i % 9 === 4 ? Math.round(100 * perStep) * 5 : 0)),
    provider_cost: charged.map((credits) => Math.round(credits * 0.31) / 100),
    failures: [
      { reason: "the provider timed out after … s", count: 41 },
      { reason: "CUDA out of memory: tried to allocate … GiB", count: 17 },
      { reason: "the picture is larger than … pixels", count: 9 },
      { reason: "ConnectionError: provider 'flux' closed the connection", count: 4 },
    ],
    pools: [
      { name: "gpu", slots: 3, busy: 3, ready: 11, parked: 4, paused: false, paused_tools: [] },
      { name: "api", slots: 20, busy: 6, ready: 0, parked: 1, paused: false, paused_tools: [] },
      { name: "cpu", slots: null, busy: 2, ready: 0, parked: 0, paused: true, paused_tools: [] },
    ],
    workers: { alive: 4, silent: 1, names_silent: ["gpu-3.worker"] },
    providers_down: ["flux"],
    dead_letters: 58,
    dead_letters_more: false,
    alerts: [
      {
        code: "WORKER_SILENT",
        severity: "critical",
        text: "gpu-3.worker has been silent for 4 min; it held 1 job.",
        link: "/workers",
      },
      { code: "PROVIDER_DOWN", severity: "warning", text: "The breaker of provider flux is open.", link: "/providers" },
      { code: "POOL_PAUSED", severity: "warning", text: "Pool cpu is paused.", link: "/pools" },
    ],
  };
}

export function emptyOverview(range: Range, now: number): Overview {
  const full = fullOverview(range, now);
  const zeros = full.times.map(() => 0);
  const none = full.times.map(() => null);
  return {
    ...full,
    depth: [],
    submitted: [],
    completed: [],
    failed: [],
    cancelled: [],
    wait_p50: none,
    wait_p95: none,
    run_p50: none,
    run_p95: none,
    charged: zeros,
    refunded: zeros,
    granted: zeros,
    provider_cost: zeros,
    failures: [],
    pools: [{ name: "default", slots: null, busy: 0, ready: 0, parked: 0, paused: false, paused_tools: [] }],
    workers: { alive: 0, silent: 0, names_silent: [] },
    providers_down: [],
    dead_letters: 0,
    alerts: [],
  };
}

export function fullJobPage(job: Job, now: number): JobPage {
  const at = (iso8601: string | null): number => (iso8601 ? Date.parse(iso8601) : now);
  const created = at(job.created_at);
  const started = at(job.started_at);
  const ended = at(job.finished_at);
  const events: Schemas["EventView"][] = [];
  const tell = (kind: string, when: number, data: Record<string, unknown> = {}) =>
    events.push({
      number: events.length + 1,
      job_id: job.id,
      kind,
      data: data as Record<string, never>,
      at: iso(when),
    });
  tell("submitted", created);
  const ran = job.started_at !== null;
  const failedRuns = job.status === "failed" ? 2 : 0;
  for (let run = 0; run < failedRuns; run++) {
    const when = created + (started - created) * ((run + 0.4) / 3);
    tell("claimed", when, { worker: "gpu-1.worker", epoch: run + 1 });
    tell("started", when + 40, { epoch: run + 1 });
    tell("retried", when + 2200, {
      error: job.error,
      attempts: run + 1,
      due_at: (when + 6000) * 1000,
      traceback: TRACEBACK,
    });
  }
  if (ran) {
    tell("claimed", started - 60, { worker: "gpu-2.worker", epoch: failedRuns + 1 });
    tell("started", started, { epoch: failedRuns + 1 });
    tell("step", started + (ended - started) * 0.2, { name: "download" });
    tell("checkpoint", started + (ended - started) * 0.3, { name: "UPSCALING", progress: 30 });
    tell("progress", started + (ended - started) * 0.5, { progress: 50 });
    tell("log", started + (ended - started) * 0.55, { text: "tile 12 of 24, 2.1 GiB of memory in use" });
    if (job.provider_ref) {
      tell("accepted", started + (ended - started) * 0.56, { ref: job.provider_ref });
      tell("callback", started + (ended - started) * 0.7, {
        verdict: "verified",
        attempt: 0,
        about: job.provider_ref,
        headers: { "content-type": "application/json" },
        body: '{"status":"succeeded"}',
        told: "completed",
      });
    }
    if (job.status !== "failed") tell("step", started + (ended - started) * 0.8, { name: "upscale" });
  }
  if (job.status === "completed")
    tell("completed", ended, { delivered: job.delivered, of: job.units, refunded: job.refunded });
  if (job.status === "failed")
    tell("failed", ended, { error: job.error, refunded: job.refunded, dead: job.is_dead_letter, traceback: TRACEBACK });
  if (job.status === "cancelled")
    tell("cancelled", ended, { reason: "the owner cancelled it", refunded: job.refunded });
  const entries: Schemas["EntryView"][] = [
    {
      number: 812,
      kind: "charge",
      amount: -job.charged,
      balance_after: 96,
      job_id: job.id,
      reason: job.tool,
      at: iso(created),
    },
  ];
  if (job.refunded > 0)
    entries.push({
      number: 815,
      kind: "refund",
      amount: job.refunded,
      balance_after: 96 + job.refunded,
      job_id: job.id,
      reason: job.error,
      at: iso(ended),
    });
  const chance = random(99);
  const isOver = job.finished_at !== null;
  const file = (
    id: string,
    name: string,
    media: string,
    role: "input" | "result",
    size: number,
  ): Schemas["FileView"] => ({
    id,
    account: job.account,
    name,
    state: "stored",
    role,
    media_type: media,
    size,
    digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    job: job.id,
    uses: 1,
    reservation: null,
    created_at: job.created_at,
    expires_at: null,
  });
  const files = [file("0190aaaa-0000-7000-8000-000000000001", "cat.png", "image/png", "input", 482_113)];
  if (job.status === "completed") {
    files.push(file("0190aaaa-0000-7000-8000-000000000002", "cat-large.png", "image/png", "result", 2_904_551));
    if (job.tool === "video")
      files.push(file("0190aaaa-0000-7000-8000-000000000003", "cat.mp4", "video/mp4", "result", 9_904_551));
  }
  return {
    job: {
      ...job,
      payload: {
        image: "file:0190aaaa-0000-7000-8000-000000000001",
        scale: 4,
        seed: 2 ** 53 + 2,
        api_key: "not shown",
        prompt: 'a cat, "film grain" <b>bold</b>',
      },
      result:
        job.status === "completed"
          ? { image: "0190aaaa-0000-7000-8000-000000000002", width: 4096, height: 3072, score: 0.98 }
          : null,
      resume_data: job.status === "running" ? { tile: 12, of: 24 } : null,
    },
    events,
    more_events: false,
    steps: ran
      ? [
          {
            name: "download",
            saved_at: iso(started + (ended - started) * 0.2),
            took_s: 1.4,
            result: { bytes: 482113 },
          },
          ...(job.status === "failed"
            ? []
            : [
                {
                  name: "upscale",
                  saved_at: iso(started + (ended - started) * 0.8),
                  took_s: 9.2,
                  result: { tiles: 24 },
                },
              ]),
          {
            name: "notify the gallery service",
            saved_at: iso(started + (ended - started) * 0.9),
            took_s: null,
            result: null,
          },
        ]
      : [],
    attempts: [
      ...Array.from({ length: failedRuns }, (_, run) => {
        const when = created + (started - created) * ((run + 0.4) / 3);
        return {
          number: run + 1,
          worker: "gpu-1.worker",
          began_at: iso(when),
          ended_at: iso(when + 2200),
          how: "retried" as const,
          error: job.error,
        };
      }),
      ...(ran
        ? [
            {
              number: failedRuns + 1,
              worker: "gpu-2.worker",
              began_at: iso(started),
              ended_at: isOver ? iso(ended) : null,
              how: isOver ? (job.status as "completed") : ("running" as const),
              error: job.error,
            },
          ]
        : []),
    ],
    entries,
    files,
    recent_runs: Array.from({ length: 50 }, (_, index) => ({
      job_id: idOf(1_000_000 - index - 20),
      status: chance() < 0.12 ? ("failed" as const) : chance() < 0.05 ? ("cancelled" as const) : ("completed" as const),
      finished_at: iso(now - index * 41_000),
      run_s: 6 + chance() * 16 + (index === 17 ? 40 : 0),
    })),
    traceback: job.status === "failed" ? TRACEBACK : null,
    trace_url: `https://traces.example.test/?q=${job.correlation_id}`,
    acts: isOver
      ? job.is_dead_letter
        ? ["requeue", "discard"]
        : job.refunded === 0
          ? ["refund"]
          : []
      : job.status === "running"
        ? ["cancel", "recover"]
        : ["cancel"],
    live_workers: job.pool === "cpu" ? 0 : 2,
  };
}

const TRACEBACK = `Traceback (most recent call last):
  File "/app/tools.py", line 48, in upscale
    pixels = await job.step("upscale", enlarge, image, scale)
  File "/app/models.py", line 112, in enlarge
    raise ProviderTimeout("the provider timed out after 60 s")
ProviderTimeout: the provider timed out after 60 s`;
