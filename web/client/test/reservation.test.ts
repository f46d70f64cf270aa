import { afterEach, beforeEach, expect, test } from "vitest";
import { createFicha, type Ficha, type FichaOptions } from "../src";
import { cut, HostileServer, json, problem, receiptJson, silence, until } from "./hostileServer";

const SUBMIT = "POST /api/jobs";
const UPLOAD = "POST /api/uploads";
const RESERVE = "POST /api/reservations";
const HELD = "GET /api/reservations";
const release = (id: string) => `POST /api/reservations/${id}/release`;

let server: HostileServer;
let held: number;

beforeEach(async () => {
  sessionStorage.clear();
  server = await HostileServer.start();
  server.on(SUBMIT, json(receiptJson(), 201));
  server.on(UPLOAD, json({ file: { id: "file-1", expires_at: null } }, 201));
  held = 0;
  server.on(RESERVE, (seen, response) => json(hold(`slot-${++held}`), 201)(seen, response));
  for (const id of ["slot-1", "slot-2"]) server.on(release(id), json(hold(id, { state: "released" })));
});

afterEach(() => server.stop());

function client(options: FichaOptions = {}): Ficha {
  return createFicha({ url: server.url, times: { retries: [1, 2, 3, 4] }, ...options });
}

function hold(id: string, fields: Record<string, unknown> = {}): Record<string, unknown> {
  return { id, account: "ana", state: "active", created_at: new Date().toISOString(), uploads: [], ...fields };
}

const cat = () => new File(["cat"], "cat.png", { lastModified: 1 });
const over = (state: string) => problem(409, "INVALID_STATE", { state });
const routes = (): string[] => server.seen.map((seen) => `${seen.method} ${seen.path}`);
const slots = (): unknown[] => server.of(SUBMIT).map((seen) => JSON.parse(seen.body).reservation);
const slotsOfUploads = (): unknown[] => server.of(UPLOAD).map((seen) => seen.query.get("reservation"));

test("files are sent under a reservation, which the submit uses", async () => {
  await client().submit("upscale", { image: cat() });
  expect(routes()).toEqual([RESERVE, UPLOAD, SUBMIT]);
  expect(slotsOfUploads()).toEqual(["slot-1"]);
  expect(slots()).toEqual(["slot-1"]);
  expect(sessionStorage.length).toBe(0);
});

test("without files to send, nothing is reserved", async () => {
  const ficha = client();
  await ficha.submit("paint", { n: 4 });
  const image = cat();
  await ficha.submit("upscale", { image });
  await ficha.submit("upscale", { image });
  expect(server.of(RESERVE)).toHaveLength(1);
  expect(slots()).toEqual([undefined, "slot-1", undefined]);
});

test("a person over quota learns it before anything is sent", async () => {
  const told: number[] = [];
  for (const code of ["QUOTA_EXCEEDED", "ACTIVE_JOB_EXISTS"]) {
    server.on(RESERVE, problem(429, code, { limit: 1, active: 1, job_id: "job-7" }));
    const submit = client().submit("upscale", { image: cat() }, { onUpload: ({ sent }) => told.push(sent) });
    await expect(submit).rejects.toMatchObject({ code, status: 429, members: { limit: 1, job_id: "job-7" } });
  }
  expect(told).toEqual([0, 0]);
  expect(routes()).toEqual([RESERVE, RESERVE]);
});

test("the slot is held as long as the files may need on a slow line", async () => {
  for (const value of [6_000_000, 6_000_000_000]) {
    const image = Object.defineProperty(cat(), "size", { value });
    await client().submit("upscale", { image });
  }
  expect(server.of(RESERVE).map((seen) => JSON.parse(seen.body))).toEqual([{ ttl_s: 120 }, { ttl_s: 3_600 }]);
});

test("a server that holds slots for less is asked for less", async () => {
  const less = problem(422, "INVALID_ARGUMENT", { limit: 30 });
  server.on(RESERVE, less, json(hold("slot-1"), 201));
  await client().submit("upscale", { image: cat() });
  expect(server.of(RESERVE).map((seen) => JSON.parse(seen.body).ttl_s)).toEqual([61, 30]);
  expect(slots()).toEqual(["slot-1"]);
});

test("a file or a submit that is refused frees the slot", async () => {
  server.on(UPLOAD, problem(422, "INVALID_FILE"));
  await expect(client().submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "INVALID_FILE" });
  await until(() => server.of(release("slot-1")).length);
  server.on(UPLOAD, json({ file: { id: "file-1", expires_at: null } }, 201));
  server.on(SUBMIT, problem(402, "INSUFFICIENT_CREDITS"));
  await expect(client().submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "INSUFFICIENT_CREDITS" });
  await until(() => server.of(release("slot-2")).length);
});

test("the next reservation waits until the last one is free", async () => {
  server.on(SUBMIT, problem(402, "INSUFFICIENT_CREDITS"), json(receiptJson(), 201));
  server.on(release("slot-1"), problem(503, "OVERLOADED"), json(hold("slot-1")));
  const ficha = client();
  await expect(ficha.submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "INSUFFICIENT_CREDITS" });
  await ficha.submit("upscale", { image: cat() });
  const [, ...later] = routes().filter((route) => route.includes("reservations"));
  expect(later).toEqual([release("slot-1"), release("slot-1"), RESERVE]);
});

test("an upload that is called off frees the slot", async () => {
  server.on(UPLOAD, silence);
  const leaving = new AbortController();
  const submit = client().submit("upscale", { image: cat() }, { signal: leaving.signal });
  await until(() => server.of(UPLOAD).length);
  leaving.abort();
  await expect(submit).rejects.toThrow(/abort/i);
  await until(() => server.of(release("slot-1")).length);
  expect(server.of(SUBMIT)).toHaveLength(0);
});

test("called off while the slot is being held, it is freed as soon as that is answered", async () => {
  let answer = (): void => {};
  server.on(RESERVE, (seen, response) => {
    answer = () => void json(hold("slot-1"), 201)(seen, response);
  });
  const leaving = new AbortController();
  const submit = client().submit("upscale", { image: cat() }, { signal: leaving.signal });
  await until(() => server.of(RESERVE).length);
  leaving.abort();
  await expect(submit).rejects.toThrow(/abort/i);
  answer();
  await until(() => server.of(release("slot-1")).length);
  expect(server.of(UPLOAD)).toHaveLength(0);
});

test("who leaves the page in the middle gives the slot back, and the next visit once more", async () => {
  server.on(UPLOAD, silence);
  const leaving = new AbortController();
  const left = client().submit("upscale", { image: cat() }, { signal: leaving.signal });
  await until(() => server.of(UPLOAD).length);
  const stored = { ...sessionStorage };
  window.dispatchEvent(new Event("pagehide"));
  await until(() => server.of(release("slot-1")).length === 1);
  leaving.abort();
  await left.catch(() => {});
  await until(() => server.of(release("slot-1")).length === 2);
  for (const [name, text] of Object.entries(stored)) sessionStorage.setItem(name, text);

  server.on(UPLOAD, json({ file: { id: "file-1", expires_at: null } }, 201));
  server.seen.length = 0;
  await client().submit("upscale", { image: cat() });
  expect(routes()).toEqual([release("slot-1"), RESERVE, UPLOAD, SUBMIT]);
  expect(slots()).toEqual(["slot-2"]);
});

test("a page that is left while the submit is sent does not take its slot", async () => {
  let answer = (): void => {};
  server.on(SUBMIT, (seen, response) => {
    answer = () => void json(receiptJson(), 201)(seen, response);
  });
  const submit = client().submit("upscale", { image: cat() });
  await until(() => server.of(SUBMIT).length);
  window.dispatchEvent(new Event("pagehide"));
  answer();
  await submit;
  expect(server.of(release("slot-1"))).toHaveLength(0);
});

test("a slot that ran out during the upload is left out", async () => {
  const keys = (): unknown[] => server.of(SUBMIT).map((seen) => seen.headers["idempotency-key"]);
  server.on(UPLOAD, over("expired"), json({ file: { id: "file-1", expires_at: null } }, 201));
  server.on(SUBMIT, over("expired"), json(receiptJson(), 201));
  await client().submit("upscale", { image: cat() });
  expect(slotsOfUploads()).toEqual(["slot-1", null]);
  expect(slots()).toEqual(["slot-1", undefined]);
  expect(new Set(keys()).size).toBe(1);
});

test("a slot that ran out does not help over a quota that is full by then", async () => {
  server.on(SUBMIT, over("expired"), problem(429, "QUOTA_EXCEEDED", { limit: 2 }));
  await expect(client().submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
  expect(server.of(UPLOAD)).toHaveLength(1);
});

test("another state that is wrong is told as it is", async () => {
  server.on(SUBMIT, problem(409, "INVALID_STATE", { state: "uploading" }));
  await expect(client().submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "INVALID_STATE" });
  expect(server.of(SUBMIT)).toHaveLength(1);
});

test("a submit without an answer frees the slot, and is repeated with its key", async () => {
  server.on(SUBMIT, cut);
  await expect(client().submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "NETWORK" });
  await until(() => server.of(release("slot-1")).length);
  server.on(SUBMIT, json(receiptJson({ idempotent_hit: true })));
  await client().submit("upscale", { image: cat() });
  expect(server.of(RESERVE)).toHaveLength(1);
  expect(slots().at(-1)).toBeUndefined();
  expect(new Set(server.of(SUBMIT).map((seen) => seen.headers["idempotency-key"])).size).toBe(1);
});

test("a slot is found again where only the answer was lost", async () => {
  const made = new Date().toISOString();
  server.on(RESERVE, cut);
  server.on(HELD, json({ items: [hold("slot-1", { created_at: made })], next: null }));
  await client().submit("upscale", { image: cat() });
  expect(server.of(RESERVE)).toHaveLength(1);
  expect(Object.fromEntries(server.of(HELD)[0]?.query ?? [])).toEqual({ state: "active", limit: "1" });
  expect(slots()).toEqual(["slot-1"]);
});

test("a slot of another window is not taken for the one that was lost", async () => {
  const others = [
    [hold("slot-7", { uploads: [{ id: "file-7" }] })],
    [hold("slot-8", { created_at: "2026-01-01T10:00:00Z" })],
    [],
  ];
  for (const items of others) {
    sessionStorage.clear();
    server.on(RESERVE, cut, json(hold("slot-1"), 201));
    server.on(HELD, json({ items, next: null }));
    await client().submit("upscale", { image: cat() });
    expect(slots().at(-1)).toBe("slot-1");
  }
});
