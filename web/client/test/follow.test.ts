// @vitest-environment node
import { afterEach, beforeEach, expect, test } from "vitest";
import { createFicha, type Ficha, type FichaError, type FichaOptions, type FollowedState, type Times } from "../src";
import {
  cut,
  HostileServer,
  happening,
  jobJson,
  json,
  message,
  problem,
  silence,
  stream,
  until,
} from "./hostileServer";

const EVENTS = "GET /api/jobs/job-1/events";
const JOB = "GET /api/jobs/job-1";
const QUICK: Partial<Times> = {
  backoff: [1, 20],
  connect: 2_000,
  stall: 2_000,
  beforePolling: 5_000,
  poll: 10,
  lost: 5_000,
  hidden: 30,
  refresh: 1,
};
const WAITS = message("job", jobJson());
const RUNS = message("job", jobJson({ status: "running", position: null, waiting_for: null, epoch: 1 }));
const DONE = jobJson({ status: "completed", position: null, waiting_for: null, result: { text: "olá 🖼" }, epoch: 1 });
const END = message("end", DONE, "2-end");

let server: HostileServer;
let states: FollowedState[];
const closing: (() => void)[] = [];

beforeEach(async () => {
  server = await HostileServer.start();
  server.on("GET /api/queue/check", json({ pools: [{ ready: 12 }] }));
  server.on("GET /api/jobs", json({ items: [], next: null }));
  states = [];
});

afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await server.stop();
});

function client(times: Partial<Times> = {}, options: FichaOptions = {}): Ficha {
  return createFicha({ url: server.url, times: { ...QUICK, ...times }, ...options });
}

function follow(ficha: Ficha) {
  const subscription = ficha.subscribeToJob("job-1", (state) => states.push(state));
  closing.push(subscription.close);
  return subscription;
}

const phases = (): string[] => states.map((state) => state.phase).filter((phase, at, all) => phase !== all[at - 1]);

test("a job is followed from its place in line to its end", async () => {
  server.on(
    EVENTS,
    stream([
      happening(1, "submitted"),
      WAITS,
      message("position", { position: 2, estimated_wait_s: 25, waiting_for: "place" }),
      happening(2, "claimed", { epoch: 1 }),
      happening(3, "started", { epoch: 1 }),
      happening(4, "progress", { progress: 40 }),
      happening(5, "completed"),
      END,
    ]),
  );
  const end = await follow(client()).done;
  expect(end.phase).toBe("done");
  expect(end.job.result).toEqual({ text: "olá 🖼" });
  expect(phases()).toEqual(["waiting", "running", "done"]);
  const places = states.flatMap((state) => (state.phase === "waiting" ? [state.wait.position] : []));
  expect([...new Set(places)]).toEqual([3, 2]);
  expect(states.some((state) => state.phase === "running" && state.progress === 40)).toBe(true);
  expect(states.every((state) => state.connection === "live")).toBe(true);
});

test("the line's length is asked for and never shorter than the place", async () => {
  server.on(EVENTS, stream([WAITS], "open"));
  follow(client());
  await until(() => states.some((state) => state.phase === "waiting" && state.wait.of === 12));
});

test("a place that gets worse says so", async () => {
  const at = (position: number) => message("position", { position, estimated_wait_s: 9, waiting_for: "place" });
  server.on(EVENTS, stream([WAITS, at(4), at(2)], "open"));
  follow(client());
  const seen = await until(() => {
    const waits = states.flatMap((state) => (state.phase === "waiting" ? [state.wait] : []));
    return waits.at(-1)?.position === 2 && waits;
  });
  expect(seen.find((wait) => wait.position === 4)?.isOvertaken).toBe(true);
  expect(seen.at(-1)?.isOvertaken).toBe(false);
});

test("a stream that is cut in the middle of a character goes on whole", async () => {
  const bytes = new TextEncoder().encode(END);
  const middle = bytes.indexOf(0xf0) + 2;
  server.on(EVENTS, stream([WAITS, bytes.slice(0, middle), bytes.slice(middle)]));
  const end = await follow(client()).done;
  expect(end.job.result).toEqual({ text: "olá 🖼" });
});

test("a stream that breaks in the middle of a message resumes after the last event", async () => {
  server.on(
    EVENTS,
    stream([happening(1, "submitted"), WAITS, happening(2, "claimed"), "id: 3\nevent: started\ndata: {"], "cut"),
    stream([happening(3, "started"), RUNS, END]),
  );
  await follow(client()).done;
  expect(server.of(EVENTS).map((seen) => seen.headers["last-event-id"])).toEqual([undefined, "2"]);
});

test("events that come twice count once", async () => {
  server.on(
    EVENTS,
    stream([WAITS, happening(2, "claimed"), happening(3, "progress", { progress: 60 })], "cut"),
    stream([
      happening(3, "progress", { progress: 60 }),
      RUNS,
      happening(3, "progress", { progress: 10 }),
      happening(4, "progress", { progress: 70 }),
      END,
    ]),
  );
  await follow(client()).done;
  const progress = states.flatMap((state) => (state.phase === "running" && state.progress ? [state.progress] : []));
  expect([...new Set(progress)]).toEqual([60, 70]);
});

test("only the end settles it: a stream that a proxy closes is opened again", async () => {
  server.on(EVENTS, stream([WAITS]), stream([RUNS, happening(5, "completed")]), stream([END]));
  const end = await follow(client()).done;
  expect(end.phase).toBe("done");
  expect(server.of(EVENTS)).toHaveLength(3);
});

test("a silent stream is given up and opened again", async () => {
  server.on(EVENTS, stream([WAITS], "open"), stream([RUNS, END]));
  // On a busy machine the second one may be silent for so long, too.
  const end = await follow(client({ stall: 60 })).done;
  expect(end.phase).toBe("done");
  expect(server.of(EVENTS).length).toBeGreaterThanOrEqual(2);
});

test("a comment is a sign of life", async () => {
  server.on(EVENTS, async (seen, response) => {
    await stream([WAITS], "open")(seen, response);
    for (let times = 0; times < 9; times += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      response.write(": keep-alive\n\n");
    }
    response.end(END);
  });
  await follow(client({ stall: 800 })).done;
  expect(server.of(EVENTS)).toHaveLength(1);
});

test("a server that takes the call and never answers is called again", async () => {
  server.on(EVENTS, silence, stream([RUNS, END]));
  const end = await follow(client({ connect: 50 })).done;
  expect(end.phase).toBe("done");
  expect(server.of(EVENTS).length).toBeGreaterThanOrEqual(2);
});

test("the server says when to come back", async () => {
  server.on(EVENTS, stream([WAITS, "event: reconnect\nretry: 80\ndata: {}\n\n"]), stream([END]));
  const began = performance.now();
  await follow(client()).done;
  expect(performance.now() - began).toBeGreaterThan(79);
});

test("a token that is refused is asked for again, once", async () => {
  let asked = 0;
  const token = async (): Promise<string> => `token-${++asked}`;
  server.on(EVENTS, problem(401, "UNAUTHENTICATED"), stream([END]));
  await follow(client({}, { token })).done;
  expect(server.of(EVENTS).map((seen) => seen.headers.authorization)).toEqual(["Bearer token-1", "Bearer token-2"]);
});

test("a credential that ends while the stream is open is replaced, and nothing is missed", async () => {
  let asked = 0;
  const token = async (): Promise<string> => `token-${++asked}`;
  const refused = message("refused", { status: 401, code: "UNAUTHENTICATED", detail: "it has expired" });
  server.on(EVENTS, stream([WAITS, happening(2, "claimed"), refused]), stream([END]));
  await follow(client({}, { token })).done;
  const [first, second] = server.of(EVENTS);
  expect(first?.headers.authorization).toBe("Bearer token-1");
  expect(second?.headers.authorization).toBe("Bearer token-2");
  expect(second?.headers["last-event-id"]).toBe("2");
});

test("a sign-in that ended is told, and nothing is asked any more", async () => {
  server.on(EVENTS, stream([WAITS], "cut"), problem(401, "UNAUTHENTICATED"));
  const subscription = follow(client());
  await expect(subscription.done).rejects.toMatchObject({ code: "UNAUTHENTICATED", status: 401 });
  expect(states.at(-1)).toMatchObject({ phase: "waiting", connection: "lost" });
  expect(states.at(-1)?.problem?.code).toBe("UNAUTHENTICATED");
});

test.each([400, 403, 404, 409, 410, 422])("the status %i ends it", async (status) => {
  server.on(EVENTS, problem(status, "NO"));
  const error: FichaError = await follow(client()).done.then(
    () => expect.unreachable(),
    (refused) => refused,
  );
  expect(error).toMatchObject({ status, code: "NO", detail: "NO, said the server" });
  expect(server.of(EVENTS)).toHaveLength(1);
});

test.each([408, 429, 500, 502, 503, 504])("the status %i does not", async (status) => {
  server.on(EVENTS, problem(status, "LATER"), stream([END]));
  await follow(client()).done;
});

test("a server that is too busy is left alone for as long as it says", async () => {
  server.on(EVENTS, problem(503, "OVERLOADED", { retry_after_s: 0.9 }), stream([END]));
  const began = performance.now();
  await follow(client()).done;
  // The header has whole seconds.
  expect(performance.now() - began).toBeGreaterThan(990);
});

test("where streams fail the job is asked for, and a stream that works takes over again", async () => {
  let isOpen = false;
  server.on(EVENTS, (seen, response) => (isOpen ? stream([RUNS], "open") : cut)(seen, response));
  server.on(JOB, json(jobJson({ position: 2 })));
  const subscription = follow(client({ beforePolling: 5 }));
  await until(() => states.at(-1)?.connection === "polling");
  expect(subscription.state).toMatchObject({ phase: "waiting", wait: { position: 2 } });
  isOpen = true;
  await until(() => states.at(-1)?.connection === "live");
  const asked = server.of(JOB).length;
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(server.of(JOB).length).toBeLessThanOrEqual(asked + 1);
});

test("the end is seen also where only questions are answered", async () => {
  server.on(EVENTS, cut);
  server.on(
    JOB,
    json(jobJson(), 200, { ETag: '"1"' }),
    (_seen, response) => void response.writeHead(304).end(),
    json(DONE),
  );
  const end = await follow(client({ beforePolling: 5 })).done;
  expect(end.phase).toBe("done");
  expect(server.of(JOB).map((seen) => seen.headers["if-none-match"])).toEqual([undefined, '"1"', '"1"']);
});

test("a stream that answers but lets nothing through counts as none", async () => {
  server.on(EVENTS, stream([], "open"));
  server.on(JOB, json(jobJson()));
  follow(client({ beforePolling: 20 }));
  await until(() => states.at(-1)?.connection === "polling");
});

test("without any news the connection is lost; the last state stays, and news end it", async () => {
  let isUp = false;
  const first = stream([WAITS], "cut");
  let calls = 0;
  server.on(EVENTS, (seen, response) => (calls++ === 0 ? first : isUp ? stream([RUNS], "open") : cut)(seen, response));
  server.on(JOB, cut);
  follow(client({ beforePolling: 5, lost: 40 }));
  await until(() => states.at(-1)?.connection === "lost");
  expect(states.at(-1)).toMatchObject({ phase: "waiting", wait: { position: 3 } });
  isUp = true;
  await until(() => states.at(-1)?.connection === "live" && states.at(-1)?.phase === "running");
});

test("partial results are shown as they arrive", async () => {
  const part = (count: number) => ({ pictures: Array.from({ length: count }, (_none, at) => `picture-${at}`) });
  const running = { status: "running", position: null, waiting_for: null, epoch: 1 };
  let made = 0;
  server.on(JOB, (seen, response) => json(jobJson({ ...running, partial: part(made) }))(seen, response));
  server.on(EVENTS, async (_seen, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(RUNS);
    for (made = 1; made <= 2; made += 1) {
      const asked = server.of(JOB).length;
      response.write(happening(10 + made, "partial", { progress: made * 30 }));
      await until(() => server.of(JOB).length > asked);
      await until(() => states.some((state) => state.phase === "running" && same(state.partial, part(made))));
    }
    response.end(END);
  });
  await follow(client()).done;
});

test("a job that is tried again waits again, with the time of its next try", async () => {
  const again = { status: "queued", position: null, waiting_for: "schedule", attempts: 1, epoch: 1 };
  server.on(JOB, json(jobJson({ ...again, scheduled_at: "2026-11-16T14:05:00Z" })));
  server.on(EVENTS, stream([RUNS, happening(7, "retried", { attempts: 1 })], "open"));
  follow(client());
  const state = await until(() => states.find((one) => one.phase === "waiting"));
  expect(state).toMatchObject({ wait: { reason: "schedule" }, job: { attempts: 1, max_attempts: 3 } });
});

test("how long a run usually takes comes from the account's last ones", async () => {
  const run = (seconds: number) => ({
    ...jobJson({ status: "completed" }),
    started_at: "2026-11-16T10:00:00Z",
    finished_at: new Date(Date.parse("2026-11-16T10:00:00Z") + seconds * 1_000).toISOString(),
  });
  server.on("GET /api/jobs", json({ items: [18, 20, 24, 30, 90].map(run), next: null }));
  server.on(EVENTS, stream([RUNS], "open"));
  follow(client());
  const state = await until(() => states.find((one) => one.phase === "running" && one.usual));
  expect(state).toMatchObject({ usual: [20, 30] });
});

test("a split request is told whole with each of its changes, and its end has all results", async () => {
  const whole = (fields: object) => ({ ...jobJson({ status: "running" }), units: 8, parts: [], ...fields });
  const job = (name: string, fields: object) => `event: ${name}\ndata: ${JSON.stringify(whole(fields))}\n\n`;
  const told = [
    job("job", { progress: 0 }),
    job("job", { progress: 50, partial: [["one"], null] }),
    job("end", { status: "completed", progress: 100, delivered: 8, result: [["one"], ["two"]] }),
  ];
  server.on(EVENTS, stream(told));
  const end = await follow(client()).done;
  expect(end).toMatchObject({ phase: "done", job: { delivered: 8, result: [["one"], ["two"]] } });
  expect(states.find((one) => one.phase === "running" && one.progress === 50)).toMatchObject({
    partial: [["one"], null],
    usual: null,
  });
  expect(server.of("GET /api/jobs")).toHaveLength(0);
});

test("fields that end in _at are dates, and the product's own JSON stays as it is", async () => {
  server.on(EVENTS, stream([END]));
  const { job } = await follow(client()).done;
  expect(job.created_at).toEqual(new Date("2026-11-16T10:00:00Z"));
  expect(job.payload).toEqual({ at: "2026-11-16", made_at: "stays a text" });
});

test("a run never began in the future, whatever the clocks say", async () => {
  const later = new Date(Date.now() + 600_000).toISOString();
  const running = jobJson({ status: "running", started_at: later, locked_at: later, epoch: 1 });
  server.on(EVENTS, stream([message("job", running)], "open"));
  follow(client());
  const state = await until(() => states.find((one) => one.phase === "running"));
  expect(state.phase === "running" && +state.since).toBeLessThanOrEqual(Date.now());
});

test("many listeners share one stream, and the last to leave closes it", async () => {
  let isClosed = false;
  server.on(EVENTS, (seen, response) => {
    response.on("close", () => {
      isClosed = true;
    });
    return stream([WAITS], "open")(seen, response);
  });
  const ficha = client();
  const one = ficha.subscribeToJob("job-1", () => {});
  await until(() => one.state);
  let told = 0;
  const other = ficha.subscribeToJob("job-1", () => {
    told += 1;
  });
  expect(told).toBe(1);
  expect(server.of(EVENTS)).toHaveLength(1);
  one.close();
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(isClosed).toBe(false);
  other.close();
  await until(() => isClosed);
});

test("a signal ends a subscription", async () => {
  let isClosed = false;
  server.on(EVENTS, (seen, response) => {
    response.on("close", () => {
      isClosed = true;
    });
    return stream([WAITS], "open")(seen, response);
  });
  const leaving = new AbortController();
  const subscription = client().subscribeToJob("job-1", () => {}, { signal: leaving.signal });
  await until(() => subscription.state);
  leaving.abort();
  await until(() => isClosed);
});

test("further jobs are asked for once the streams are used up", async () => {
  server.on(EVENTS, stream([WAITS], "open"));
  server.on("GET /api/jobs/job-2", json(jobJson({ id: "job-2" })));
  const ficha = client({}, { streams: 1 });
  const one = follow(ficha);
  await until(() => one.state);
  const other = ficha.subscribeToJob("job-2", () => {});
  closing.push(other.close);
  await until(() => other.state?.connection === "polling");
  expect(server.of("GET /api/jobs/job-2/events")).toHaveLength(0);
});

test("a listener that fails hurts no other", async () => {
  const thrown: unknown[] = [];
  const caught = (error: unknown): void => void thrown.push(error);
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", caught);
  try {
    server.on(EVENTS, stream([WAITS, END]));
    const ficha = client();
    ficha.subscribeToJob("job-1", () => {
      throw new Error("mine");
    });
    await follow(ficha).done;
    expect(phases()).toEqual(["waiting", "done"]);
    await until(() => thrown.length > 0);
  } finally {
    process.removeListener("uncaughtException", caught);
    for (const listener of before) process.on("uncaughtException", listener);
  }
});

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
