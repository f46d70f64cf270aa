import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { addressOf, api, forgetAnswers, onSignedOut, Problem, wordsOf } from "./api";

const calls: { url: string; init: RequestInit }[] = [];

function serve(...answers: Response[]) {
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    calls.push({ url, init });
    const next = answers.shift();
    return next ? Promise.resolve(next) : Promise.reject(new TypeError("Failed to fetch"));
  });
}

const json = (body: unknown, init: ResponseInit = {}) =>
  new Response(JSON.stringify(body), { ...init, headers: { "Content-Type": "application/json", ...init.headers } });

beforeEach(() => {
  calls.length = 0;
  forgetAnswers();
});
afterEach(() => {
  vi.unstubAllGlobals();
  onSignedOut(() => {});
});

async function problemOf(asked: Promise<unknown>): Promise<Problem> {
  try {
    await asked;
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error("it should have been refused");
}

test("an address has its values escaped and leaves out what is empty", () => {
  expect(
    addressOf("/api/jobs/{job_id}", { path: { job_id: "a/b c" }, query: { search: "", limit: 0, cursor: undefined } }),
  ).toBe("/api/jobs/a%2Fb%20c?limit=0");
  expect(addressOf("/api/jobs", { query: { include: ["payload", "result"] } })).toBe(
    "/api/jobs?include=payload&include=result",
  );
});

test("a problem of the server becomes an error with its code, words and position", async () => {
  const told = {
    type: "about:blank",
    status: 422,
    code: "INVALID_ARGUMENT",
    detail: '"state:faild" at 14: no',
    retryable: false,
    position: 14,
  };
  serve(json(told, { status: 422 }));
  const problem = await problemOf(api.get("/api/admin/jobs", { query: { search: "x" } }));
  expect(problem).toMatchObject({ status: 422, code: "INVALID_ARGUMENT", retryable: false, position: 14 });
  expect(wordsOf(problem)).toBe('"state:faild" at 14: no');
});

test("a page of a proxy instead of a problem still says what happened", async () => {
  serve(new Response("<html>Bad Gateway</html>", { status: 502, statusText: "Bad Gateway" }));
  expect(await problemOf(api.get("/api/admin/pools"))).toMatchObject({
    status: 502,
    code: "HTTP_502",
    detail: "The server answered 502 Bad Gateway",
    retryable: true,
  });
});

test("a server that cannot be reached is a problem that can be tried again", async () => {
  serve();
  expect(await problemOf(api.get("/api/admin/pools"))).toMatchObject({
    status: 0,
    code: "UNREACHABLE",
    retryable: true,
  });
});

test("an answer with an ETag is not sent twice, and is the same object again", async () => {
  serve(json({ items: [] }, { headers: { ETag: '"1"' } }), new Response(null, { status: 304 }));
  const first = await api.get("/api/admin/pools");
  const second = await api.get("/api/admin/pools");
  expect(second).toBe(first);
  expect(new Headers(calls[1]?.init.headers).get("If-None-Match")).toBe('"1"');
});

test("401 tells that nobody is signed in, but not for the question who is", async () => {
  let times = 0;
  onSignedOut(() => {
    times += 1;
  });
  const refused = () =>
    json({ status: 401, code: "UNAUTHENTICATED", detail: "no valid credential was sent" }, { status: 401 });
  serve(refused(), refused());
  await problemOf(api.get("/api/sign-in"));
  expect(times).toBe(0);
  await problemOf(api.get("/api/admin/pools"));
  expect(times).toBe(1);
});

test("a call carries the cookie of its own site and a body as JSON", async () => {
  serve(json({ id: "x" }, { status: 201 }));
  const asked = { act: "requeue", search: "dead:yes", reason: "fixed", amount: null, share: null } as const;
  await api.post("/api/admin/bulk-acts", asked);
  expect(calls[0]?.init).toMatchObject({ method: "POST", credentials: "same-origin" });
  expect(JSON.parse(String(calls[0]?.init.body))).toEqual(asked);
});
