import { afterEach, beforeEach, expect, test } from "vitest";
import { createFicha } from "../src";
import { SseParser } from "../src/sse";
import { backoff } from "../src/times";
import { HostileServer, jobJson, json, problem } from "./hostileServer";

let server: HostileServer;

beforeEach(async () => {
  server = await HostileServer.start();
});

afterEach(() => server.stop());

const client = (token?: string) => createFicha({ url: `${server.url}/`, token, times: { retries: [1] } });

test("the active job is found, or there is none", async () => {
  server.on("GET /api/jobs/active", json({ active: true, job: jobJson() }), json({ active: false, job: null }));
  expect((await client().checkActiveJob())?.id).toBe("job-1");
  expect(await client().checkActiveJob()).toBeNull();
});

test("a cancel tells what came back", async () => {
  const finish = { job_id: "job-1", status: "cancelled", changed: true, refunded: 4, new_balance: 24, due_at: null };
  server.on("POST /api/jobs/job-1/cancel", problem(503, "OVERLOADED"), json(finish));
  expect(await client().cancelJob("job-1")).toEqual(finish);
});

test("queries leave out what was not asked, repeat lists and write dates", async () => {
  server.on("GET /api/jobs", json({ items: [], next: null }));
  server.on("GET /api/library", json({ items: [], next: null }));
  await client().jobs({ status: ["failed", "cancelled"], limit: 5, include: ["payload", "result"], tool: undefined });
  await client().library({ since: new Date("2026-11-16T10:00:00Z"), search: "a cat & a dog" });
  expect(server.seen.map((seen) => seen.query.toString())).toEqual([
    "status=failed&status=cancelled&limit=5&include=payload%2Cresult",
    "since=2026-11-16T10%3A00%3A00.000Z&search=a+cat+%26+a+dog",
  ]);
});

test("a page's own headers, such as its trace, go with every request and replace none of the client's", async () => {
  const sent: RequestInit[] = [];
  const fetcher: typeof fetch = async (_, init) => {
    sent.push(init ?? {});
    return new Response(JSON.stringify({ active: false, job: null }));
  };
  let span = 0;
  const headers = () => ({ traceparent: `00-${"a".repeat(32)}-000000000000000${++span}-01`, Authorization: "none" });
  const ficha = createFicha({ token: "secret", fetch: fetcher, headers });
  await ficha.checkActiveJob();
  await ficha.checkActiveJob();
  expect(sent.map((one) => one.headers)).toMatchObject([
    { traceparent: `00-${"a".repeat(32)}-0000000000000001-01`, Authorization: "Bearer secret" },
    { traceparent: `00-${"a".repeat(32)}-0000000000000002-01` },
  ]);
});

test("names in an address are encoded", async () => {
  server.on("POST /api/sessions/a%2Fb/stay", json({}));
  await client().session("a/b").stay();
  expect(server.seen).toHaveLength(1);
});

test("leaving is said at once, with the credential, in a request that outlives the page", async () => {
  const calls: [string, RequestInit | undefined][] = [];
  const fetcher: typeof fetch = async (input, init) => {
    calls.push([String(input), init]);
    return new Response("{}");
  };
  void createFicha({ token: "secret", fetch: fetcher }).session("visit").leave();
  // Before anything is awaited: a page that is being left may not get that far.
  expect(calls).toHaveLength(1);
  expect(calls[0]?.[0]).toBe("/api/sessions/visit/leave");
  expect(calls[0]?.[1]).toMatchObject({ method: "POST", keepalive: true, headers: { Authorization: "Bearer secret" } });
});

test("a link to a file leads to where this page reaches the server, and is asked for once", async () => {
  const url = "http://inside:8000/api/files/f1?expires=9&signature=abc";
  server.on("GET /api/files/f1/link", json({ url, expires_at: "2026-11-16T10:00:00Z" }));
  const ficha = client("token");
  expect(await ficha.fileUrl("f1")).toBe(`${server.url}/api/files/f1?expires=9&signature=abc&inline=true`);
  await ficha.fileUrl("f1");
  expect(server.seen).toHaveLength(1);
  expect(server.seen[0]?.headers.authorization).toBe("Bearer token");
});

test("many calls that are refused together ask for one new token", async () => {
  let asked = 0;
  const ficha = createFicha({ url: server.url, token: async () => `token-${++asked}` });
  server.on("GET /api/account", (seen, response) =>
    (seen.headers.authorization === "Bearer token-2" ? json({ balance: 1 }) : problem(401, "UNAUTHENTICATED"))(
      seen,
      response,
    ),
  );
  const found = await Promise.all([ficha.balance(), ficha.balance(), ficha.balance()]);
  expect(found.map((account) => account.balance)).toEqual([1, 1, 1]);
  expect(asked).toBe(2);
});

test("a token may come from a function that answers at once, and a failing one fails the call alone", async () => {
  server.on("GET /api/account", json({ balance: 1 }));
  const ficha = createFicha({ url: server.url, token: () => "token-1" });
  expect((await ficha.balance()).balance).toBe(1);
  expect(server.seen[0]?.headers.authorization).toBe("Bearer token-1");
  let isAsked = false;
  const later = createFicha({
    url: server.url,
    token: () => {
      if (isAsked) return "token-2";
      isAsked = true;
      throw new Error("nobody has signed in");
    },
  });
  await expect(later.balance()).rejects.toThrow("nobody has signed in");
  expect((await later.balance()).balance).toBe(1);
  expect(server.seen.at(-1)?.headers.authorization).toBe("Bearer token-2");
});

test("any other route can be called", async () => {
  server.on("POST /api/batches/b1/cancel", json({ ended_at: "2026-11-16T10:00:00Z" }));
  const found = await client().request<{ ended_at: string }>("POST", "/api/batches/b1/cancel", { reason: "no" });
  expect(found.ended_at).toEqual(new Date("2026-11-16T10:00:00Z"));
  expect(server.seen[0]?.body).toBe('{"reason":"no"}');
});

test("messages are the same however the text is cut", () => {
  const text = '\uFEFF: hello\r\nid: 1\revent: a\ndata: {"x":\r\ndata: 1}\r\n\r\nretry: 50\ndata:two\n\n\n';
  const whole = new SseParser().push(text);
  expect(whole).toEqual([
    { event: "a", data: '{"x":\n1}', id: "1", retry: undefined },
    { event: "message", data: "two", id: undefined, retry: 50 },
  ]);
  for (let at = 0; at <= text.length; at += 1) {
    const parser = new SseParser();
    expect([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))]).toEqual(whole);
  }
});

test("pauses grow from 0.1 s to 5 s, and half of each is random", () => {
  for (let failures = 0; failures < 40; failures += 1) {
    const whole = Math.min(5_000, 100 * 2 ** failures);
    const wait = backoff(failures, [100, 5_000]);
    expect(wait).toBeGreaterThanOrEqual(whole / 2);
    expect(wait).toBeLessThanOrEqual(whole);
  }
});
