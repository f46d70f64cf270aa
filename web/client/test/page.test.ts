// @vitest-environment node
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createFicha, type FollowedState } from "../src";
import { HostileServer, happening, jobJson, json, message, stream, until } from "./hostileServer";

const EVENTS = "GET /api/jobs/job-1/events";

let server: HostileServer;
let page: EventTarget & { visibilityState: string };
let states: FollowedState[];
let close: () => void;
/** The connections that are open. */
let open: Set<unknown>;

beforeEach(async () => {
  page = Object.assign(new EventTarget(), { visibilityState: "visible" });
  vi.stubGlobal("document", page);
  vi.stubGlobal("window", new EventTarget());
  server = await HostileServer.start();
  server.on("GET /api/queue/check", json({ pools: [{ ready: 12 }] }));
  const opened = new Set<unknown>();
  open = opened;
  server.on(EVENTS, (seen, response) => {
    opened.add(response);
    response.on("close", () => opened.delete(response));
    return stream([happening(1, "submitted"), message("job", jobJson())], "open")(seen, response);
  });
  states = [];
  const ficha = createFicha({ url: server.url, times: { hidden: 30, backoff: [5_000, 5_000] } });
  ({ close } = ficha.subscribeToJob("job-1", (state) => states.push(state)));
  await until(() => states.length > 0);
});

afterEach(async () => {
  close();
  await server.stop();
  vi.unstubAllGlobals();
});

function look(visibilityState: "visible" | "hidden"): void {
  page.visibilityState = visibilityState;
  page.dispatchEvent(new Event("visibilitychange"));
}

test("a page that is hidden for a while closes its stream, and resumes when somebody looks", async () => {
  look("hidden");
  await until(() => open.size === 0);
  look("visible");
  await until(() => open.size === 1);
  expect(server.of(EVENTS).map((seen) => seen.headers["last-event-id"])).toEqual([undefined, "1"]);
});

test("a page that is hidden for a moment keeps it", async () => {
  look("hidden");
  look("visible");
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(server.of(EVENTS)).toHaveLength(1);
  expect(open.size).toBe(1);
});

test("the network is back: it connects at once", async () => {
  window.dispatchEvent(new Event("online"));
  await until(() => server.of(EVENTS).length === 2);
});

test("a page that comes back from the browser's cache connects at once", async () => {
  window.dispatchEvent(new Event("pagehide"));
  await until(() => open.size === 0);
  window.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));
  await until(() => open.size === 1);
});

test("nothing listens to the page any more when nobody follows", async () => {
  close();
  window.dispatchEvent(new Event("online"));
  await until(() => open.size === 0);
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(server.of(EVENTS)).toHaveLength(1);
});
