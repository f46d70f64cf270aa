// A server for the console's development and tests: it answers in the shapes of the real one, full, empty or failing.
// `FICHA_FAKE=full vite console` uses it; a cookie `fake=empty` changes what one browser sees.
import type { Schemas } from "../src/services/api";
import type { BulkAct, Range } from "../src/services/shapes";
import { allJobs, emptyOverview, fullJobPage, fullOverview, PLANS, POOLS, TOOLS } from "./data.ts";
import { answerList } from "./lists.ts";

export type Mode = "full" | "empty" | "failing" | "partly";

type Job = Schemas["JobView"];

const bulkActs: BulkAct[] = [];

export async function answer(request: Request, given: Mode): Promise<Response> {
  const url = new URL(request.url);
  const cookies = new Map(
    (request.headers.get("cookie") ?? "").split(/; */).map((one) => one.split("=", 2) as [string, string]),
  );
  const mode = (cookies.get("fake") as Mode | undefined) ?? given;
  const scope = cookies.get("ficha_sign_in");
  const path = url.pathname;
  const now = Date.now();

  if (path === "/api/sign-in" && request.method === "POST") {
    const { token } = (await request.json()) as { token: string };
    if (!["admin", "viewer", "user"].includes(token))
      return problem(401, "UNAUTHENTICATED", "no valid credential was sent");
    return json(signedIn(token), 200, { "Set-Cookie": `ficha_sign_in=${token}; HttpOnly; SameSite=Strict; Path=/` });
  }
  if (path === "/api/sign-out") {
    return json({}, 200, { "Set-Cookie": "ficha_sign_in=; Max-Age=0; HttpOnly; SameSite=Strict; Path=/" });
  }
  if (!scope) return problem(401, "UNAUTHENTICATED", "no valid credential was sent");
  if (path === "/api/sign-in") return json(signedIn(scope));
  if (mode === "failing")
    return problem(503, "OVERLOADED", "the database does not answer; nothing was changed. Try again.");
  if (request.method !== "GET" && scope !== "admin") return problem(403, "FORBIDDEN", "this needs the scope admin");

  const range = (url.searchParams.get("range") ?? "24h") as Range;
  if (path === "/api/admin/overview") {
    if (mode === "partly") return problem(503, "OVERLOADED", "the figures take too long; ask for a shorter range");
    return json(mode === "empty" ? emptyOverview(range, now) : fullOverview(range, now));
  }
  if (path === "/api/admin/search-words") {
    return json({
      tools: mode === "empty" ? [] : TOOLS,
      pools: POOLS,
      plans: PLANS,
      states: ["queued", "starting", "running", "completed", "failed", "cancelled"],
      providers: ["flux"],
    });
  }
  const jobs = mode === "empty" ? [] : allJobs(now);
  if (path === "/api/admin/jobs" || path === "/api/admin/jobs/count") {
    const search = url.searchParams.get("search") ?? "";
    const found = find(jobs, search, now);
    if (found instanceof Response) return found;
    if (path.endsWith("/count"))
      return json({
        count: Math.min(found.length, 10_000),
        is_exact: true,
        credits: found.reduce((sum, job) => sum + job.cost, 0),
      });
    const begin = Number(url.searchParams.get("cursor") ?? 0);
    const limit = Number(url.searchParams.get("limit") ?? 50);
    const items = found.slice(begin, begin + limit);
    const isWhole = !/error:|^[^:]+$/.test(search.trim()) || search.trim() === "";
    return json({
      items,
      next: begin + limit < found.length ? String(begin + limit) : null,
      looked_at: jobs.length,
      is_whole: isWhole,
      back_to: isWhole ? null : (jobs.at(-1)?.created_at ?? null),
    });
  }
  const one = /^\/api\/admin\/jobs\/([^/]+)$/.exec(path);
  if (one) {
    const job = jobs.find((each) => each.id === one[1]);
    if (!job) return problem(404, "NOT_FOUND", `there is no job ${one[1]}`);
    // Written by hand, so that a number too large for JavaScript is on the way as it would be from Python.
    const text = JSON.stringify(fullJobPage(job, now)).replace("9007199254740994", "12345678901234567890");
    return new Response(text.replace('"score":0.98', '"score":0.980'), {
      headers: { "Content-Type": "application/json" },
    });
  }
  const followed = /^\/api\/jobs\/([^/]+)(\/events)?$/.exec(path);
  if (followed) {
    const job = jobs.find((each) => each.id === followed[1]);
    if (!job) return problem(404, "NOT_FOUND", `there is no job ${followed[1]}`);
    return followed[2] && request.headers.get("accept")?.includes("event-stream") ? stream(job) : json(job);
  }
  if (path === "/api/admin/bulk-acts" && request.method === "POST") {
    const asked = (await request.json()) as Pick<BulkAct, "act" | "search" | "reason" | "amount" | "share">;
    const found = find(jobs, asked.search, now);
    if (found instanceof Response) return found;
    const act: BulkAct = {
      ...asked,
      id: `0190bbbb-0000-7000-8000-${String(bulkActs.length).padStart(12, "0")}`,
      state: "running",
      total: found.length,
      done: 0,
      failed: 0,
      credits: 0,
      by: "fake",
      started_at: new Date(now).toISOString(),
      ended_at: null,
      failures: [],
    };
    bulkActs.unshift(act);
    return json(act, 201);
  }
  if (path === "/api/admin/bulk-acts") return json({ items: mode === "empty" ? [] : bulkActs, next: null });
  const listed = await answerList(request, mode === "empty", bulkActs);
  if (listed) return json(listed.body, listed.status);
  if (/^\/api\/files\/[^/]+\/link$/.test(path)) {
    return json({ url: path.replace("/link", ""), expires_at: new Date(now + 60_000).toISOString() });
  }
  if (/^\/api\/files\/[^/]+$/.test(path)) {
    return new Response(PICTURE, { headers: { "Content-Type": "image/svg+xml" } });
  }
  if (/\/(cancel|refund|recover|requeue|discard)/.test(path)) {
    const id = path.split("/").find((part) => /^[0-9a-f-]{36}$/.test(part));
    return json({ job_id: id, status: "cancelled", changed: true, refunded: 4, new_balance: 100, act: "requeued" });
  }
  if (path === "/api/admin/accounts") {
    const prefix = url.searchParams.get("search") ?? "";
    const names = mode === "empty" ? [] : ["ana", "bruno", "carla", "davi", "elisa", "fabio", "studio-nine"];
    return json({
      items: names.filter((name) => name.startsWith(prefix)).map((id) => ({ id, plan: "pro", balance: 96 })),
      next: null,
    });
  }
  if (path === "/api/admin/pools") return json({ items: fullOverview("1h", now).pools });
  if (path === "/api/jobs") return json({ items: jobs.slice(0, 20), next: null });
  if (path === "/api/queue/check") return json({ slots: 3, slots_available: 0, busy: 3, queue_length: 15, pools: [] });
  if (path === "/api/system/health") return json({ status: "ok", version: "0.1.0", database: "sqlite" });
  return problem(404, "NOT_FOUND", `the fake server has no ${path}`);
}

function signedIn(scope: string) {
  return {
    name: scope === "admin" ? "ops-laptop" : "wall-screen",
    scope,
    account: null,
    expires_at: new Date(Date.now() + 36e5).toISOString(),
    environment: null,
  };
}

/** A small part of the search grammar: enough to see the page work. */
function find(jobs: Job[], search: string, now: number): Job[] | Response {
  let found = jobs;
  for (const part of search.matchAll(/(\w+):("[^"]*"|\S*)|(\S+)/g)) {
    const [whole, name, value, word] = part;
    if (word) {
      found = found.filter((job) => job.id === word || job.error?.includes(word));
      continue;
    }
    const values = (value ?? "").replaceAll('"', "").split(",");
    const wrong = (words: string) =>
      problem(422, "INVALID_ARGUMENT", `"${whole}" at ${part.index + 1}: ${words}`, { position: part.index + 1 });
    if (
      name === "tool" ||
      name === "account" ||
      name === "plan" ||
      name === "pool" ||
      name === "session" ||
      name === "batch"
    ) {
      found = found.filter((job) => values.includes(String(job[name])));
    } else if (name === "state") {
      const states = ["queued", "starting", "running", "completed", "failed", "cancelled"];
      const bad = values.find((one) => !states.includes(one));
      if (bad !== undefined) return wrong(`'${bad}' is no state; there are ${states.join(", ")}.`);
      found = found.filter((job) => values.includes(job.status));
    } else if (name === "error") {
      found = found.filter((job) => job.error?.toLowerCase().includes((values[0] ?? "").toLowerCase()));
    } else if (name === "dead") {
      found = found.filter((job) => job.is_dead_letter === (values[0] === "yes"));
    } else if (name === "since") {
      const age = /^(\d+)([smhdw])$/.exec(values[0] ?? "");
      if (!age) return wrong("a time is an age (30s, 5m, 1h, 2d, 1w) or a date.");
      const unit = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }[age[2] as "s"];
      found = found.filter((job) => now - Date.parse(job.created_at) < Number(age[1]) * unit * 1000);
    } else if (name === "stuck" || name === "until" || name === "correlation") {
      found = name === "stuck" ? [] : found;
    } else {
      return wrong(`there is no qualifier '${name}'; quote words that have a colon.`);
    }
  }
  return found;
}

function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
}

function problem(status: number, code: string, detail: string, details: object = {}): Response {
  const body = {
    ...details,
    type: "about:blank",
    title: code,
    status,
    detail,
    code,
    retryable: status >= 500,
    retry_after_s: null,
    correlation_id: "req-fake",
  };
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/problem+json" } });
}

const PICTURE = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 300"><rect width="400" height="300" fill="#2a6f97"/><circle cx="290" cy="90" r="42" fill="#f4d58d"/><path d="M0 300 120 130l80 100 60-70 140 140Z" fill="#1b4332"/></svg>`;

/** The job as it is, then a comment every few seconds, as the real stream has them. */
function stream(job: Job): Response {
  const say = new TextEncoder();
  let timer: ReturnType<typeof setInterval>;
  const body = new ReadableStream<Uint8Array>({
    start(told) {
      told.enqueue(say.encode(`event: job\ndata: ${JSON.stringify(job)}\n\n`));
      timer = setInterval(() => told.enqueue(say.encode(": keep-alive\n\n")), 5_000);
    },
    cancel() {
      clearInterval(timer);
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream", "Cache-Control": "no-store" } });
}
