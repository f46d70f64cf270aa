import { afterEach, beforeEach, expect, test } from "vitest";
import { createFicha, type Ficha, type FichaOptions, isFichaError, type UploadProgress } from "../src";
import { cut, HostileServer, jobJson, json, message, problem, receiptJson, type Seen, stream } from "./hostileServer";

const SUBMIT = "POST /api/jobs";
const UPLOAD = "POST /api/uploads";
const EVENTS = "GET /api/jobs/job-1/events";

let server: HostileServer;
let files = 0;

beforeEach(async () => {
  sessionStorage.clear();
  server = await HostileServer.start();
  server.on(SUBMIT, json(receiptJson(), 201));
  server.on("POST /api/reservations", json({ id: "slot-1" }, 201));
  files = 0;
  server.on(UPLOAD, (seen, response) =>
    json({ file: { id: `file-${++files}`, name: seen.query.get("name"), expires_at: null } }, 201)(seen, response),
  );
});

afterEach(() => server.stop());

function client(options: FichaOptions = {}): Ficha {
  return createFicha({ url: server.url, times: { retries: [1, 2, 3, 4] }, ...options });
}

const bodies = (): { payload: unknown }[] => server.of(SUBMIT).map((seen) => JSON.parse(seen.body));
const keys = (): unknown[] => server.of(SUBMIT).map((seen: Seen) => seen.headers["idempotency-key"]);

test("a submit gives a handle with the job and what it cost", async () => {
  const handle = await client().submit("upscale", { scale: 2 }, { session: "visit-1" });
  expect(handle.id).toBe("job-1");
  expect(handle.receipt.new_balance).toBe(20);
  expect(handle.state).toMatchObject({ phase: "waiting", wait: { position: 3, reason: "place" } });
  expect(bodies()).toEqual([{ tool: "upscale", payload: { scale: 2 }, session: "visit-1" }]);
});

test("a handle is followed to its end", async () => {
  const end = message("end", jobJson({ status: "completed", position: null }));
  server.on(EVENTS, stream([message("job", jobJson()), end]));
  const handle = await client().submit("upscale", {});
  const phases: string[] = [];
  for await (const state of handle) phases.push(state.phase);
  expect(phases.at(-1)).toBe("done");
  expect((await handle.done).phase).toBe("done");
  expect(handle.state.phase).toBe("done");
});

test("two presses make one job", async () => {
  const ficha = client();
  const [one, other] = await Promise.all([ficha.submit("upscale", { a: 1 }), ficha.submit("upscale", { a: 1 })]);
  expect(one.id).toBe(other.id);
  expect(server.of(SUBMIT)).toHaveLength(1);
});

test("another payload, or the same one after the answer, is another job", async () => {
  const ficha = client();
  await Promise.all([ficha.submit("upscale", { a: 1 }), ficha.submit("upscale", { a: 2 })]);
  await ficha.submit("upscale", { a: 1 });
  expect(new Set(keys()).size).toBe(3);
});

test("retries have one key", async () => {
  server.on(
    SUBMIT,
    cut,
    problem(503, "OVERLOADED"),
    problem(502, "PROXY", { retryable: true }),
    json(receiptJson(), 201),
  );
  await client().submit("upscale", {});
  expect(keys()).toHaveLength(4);
  expect(new Set(keys()).size).toBe(1);
});

test("a page that is loaded again repeats the same submit", async () => {
  server.on(SUBMIT, cut);
  await expect(client().submit("upscale", { a: 1 })).rejects.toMatchObject({ code: "NETWORK", retryable: true });
  server.on(SUBMIT, json(receiptJson({ idempotent_hit: true })));
  await client().submit("upscale", { a: 1 });
  expect(new Set(keys()).size).toBe(1);
  expect(sessionStorage.length).toBe(0);
});

test("what another try cannot help is told at once, with all that the server says", async () => {
  server.on(SUBMIT, problem(402, "INSUFFICIENT_CREDITS", { have: 1, need: 4 }));
  const error = await client()
    .submit("upscale", {})
    .catch((refused: unknown) => refused);
  expect(isFichaError(error, "INSUFFICIENT_CREDITS") && error.members).toMatchObject({ have: 1, need: 4 });
  expect(server.of(SUBMIT)).toHaveLength(1);
  expect(sessionStorage.length).toBe(0);
});

test("nobody waits an hour for a limit to pass", async () => {
  server.on(SUBMIT, problem(429, "RATE_LIMITED", { retry_after_s: 1_260 }));
  await expect(client().submit("upscale", {})).rejects.toMatchObject({ code: "RATE_LIMITED", retryAfter: 1_260 });
  expect(server.of(SUBMIT)).toHaveLength(1);
});

test("a proxy's page is an error too", async () => {
  server.on(SUBMIT, (_seen, response) => void response.writeHead(413).end("<html>too large</html>"));
  await expect(client().submit("upscale", {})).rejects.toMatchObject({
    code: "HTTP_413",
    status: 413,
    retryable: false,
  });
});

test("the product's own key is used", async () => {
  await client().submit("upscale", {}, { idempotencyKey: "order-1042" });
  expect(keys()).toEqual(["order-1042"]);
});

test("files anywhere in the payload are uploaded first", async () => {
  const cat = new File(["cat"], "cat.png", { type: "image/png" });
  const dog = new File(["dog!"], "dog.png", { type: "image/png" });
  const seen: UploadProgress[] = [];
  await client().submit("collage", { images: [cat, { more: dog }], scale: 2 }, { onUpload: (told) => seen.push(told) });
  const [body] = bodies();
  expect(JSON.stringify(body?.payload)).toMatch(/{"images":\["file-\d",{"more":"file-\d"}\],"scale":2}/);
  expect(server.of(UPLOAD).map((one) => [one.query.get("name"), one.query.get("size")])).toEqual(
    expect.arrayContaining([
      ["cat.png", "3"],
      ["dog.png", "4"],
    ]),
  );
  expect(server.of(UPLOAD)[0]?.headers["content-type"]).toContain("multipart/form-data");
  expect(seen.at(-1)).toEqual({ sent: 7, total: 7, share: 1 });
});

test("an upload is tried again, and sent once where only the submit failed", async () => {
  const cat = new File(["cat"], "cat.png");
  const arrived = json({ file: { id: "file-9", expires_at: null } }, 201);
  server.on(UPLOAD, problem(503, "OVERLOADED"), arrived);
  server.on(SUBMIT, problem(402, "INSUFFICIENT_CREDITS"));
  const ficha = client();
  await expect(ficha.submit("upscale", { image: cat })).rejects.toMatchObject({ code: "INSUFFICIENT_CREDITS" });
  expect(server.of(UPLOAD)).toHaveLength(2);
  server.on(SUBMIT, json(receiptJson(), 201));
  await ficha.submit("upscale", { image: cat });
  expect(server.of(UPLOAD)).toHaveLength(2);
  expect(bodies().at(-1)?.payload).toEqual({ image: "file-9" });
});

test("a submit that is repeated after a reload names the same files", async () => {
  const cat = () => new File(["cat"], "cat.png", { lastModified: 1 });
  server.on(SUBMIT, cut);
  await expect(client().submit("upscale", { image: cat() })).rejects.toMatchObject({ code: "NETWORK" });
  server.on(SUBMIT, json(receiptJson(), 200));
  await client().submit("upscale", { image: cat() });
  expect(server.of(UPLOAD)).toHaveLength(1);
  expect(new Set(bodies().map((body) => JSON.stringify(body.payload))).size).toBe(1);
  expect(new Set(keys()).size).toBe(1);
});

test("a file that was removed meanwhile is sent again", async () => {
  const cat = new File(["cat"], "cat.png");
  const ficha = client();
  await ficha.submit("upscale", { image: cat });
  server.on(SUBMIT, problem(422, "INVALID_PAYLOAD"), json(receiptJson(), 201));
  await ficha.submit("upscale", { image: cat });
  expect(bodies().map((body) => body.payload)).toEqual([{ image: "file-1" }, { image: "file-1" }, { image: "file-2" }]);
});

test("a file that is refused says why, and nothing is submitted", async () => {
  server.on(UPLOAD, problem(422, "INVALID_FILE"));
  const cat = new File(["cat"], "cat.png");
  await expect(client().submit("upscale", { image: cat })).rejects.toMatchObject({ code: "INVALID_FILE", status: 422 });
  expect(server.of(UPLOAD)).toHaveLength(1);
  expect(server.of(SUBMIT)).toHaveLength(0);
});

test("an upload asks for a new token, once", async () => {
  let asked = 0;
  server.on(UPLOAD, problem(401, "UNAUTHENTICATED"), json({ file: { id: "file-1", expires_at: null } }, 201));
  const info = await client({ token: async () => `token-${++asked}` }).upload(new File(["x"], "x.png"));
  expect(info.id).toBe("file-1");
  expect(server.of(UPLOAD).map((seen) => seen.headers.authorization)).toEqual(["Bearer token-1", "Bearer token-2"]);
});

test("a submit that is called off sends nothing more", async () => {
  const leaving = new AbortController();
  leaving.abort();
  const cat = new File(["cat"], "cat.png");
  await expect(client().submit("upscale", { image: cat }, { signal: leaving.signal })).rejects.toThrow(/abort/i);
  expect(server.seen).toHaveLength(0);
});

test("a quote does not need the file to be there", async () => {
  const quote = { admitted: false, cost: 4, balance: 20, new_balance: null, refusal: { code: "INVALID_PAYLOAD" } };
  server.on("POST /api/quote", json(quote));
  const told = await client().quote("upscale", { image: new File(["cat"], "cat.png") });
  expect(told).toMatchObject({ admitted: true, refusal: null, new_balance: 16 });
  expect(await client().quote("upscale", { image: "no-such-file" })).toMatchObject({ admitted: false });
});

test("a quote tells that the credits do not suffice, also before the file is there", async () => {
  const refusal = { code: "INVALID_PAYLOAD", message: "no such file", retry_after_s: null, details: {} };
  server.on("POST /api/quote", json({ admitted: false, cost: 64, balance: 40, new_balance: null, refusal }));
  const told = await client().quote("upscale", { image: new File(["cat"], "cat.png") });
  expect(told).toMatchObject({ admitted: false, new_balance: null });
  expect(told.refusal).toMatchObject({ code: "INSUFFICIENT_CREDITS", details: { have: 40, need: 64 } });
});
