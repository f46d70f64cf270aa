import { act } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { useQueueSessionCleanup, visitSession } from "../src";
import { Setting } from "./setting";

const calls: { path: string; init: RequestInit | undefined }[] = [];
const setting = new Setting({
  token: "secret",
  url: "",
  fetch: async (input, init) => {
    calls.push({ path: String(input), init });
    return new Response("{}");
  },
});

const said = (): string[] => calls.map(({ path }) => path.split("/").at(-1) ?? "");

function Visit() {
  useQueueSessionCleanup("visit");
  return null;
}

async function visit(): Promise<void> {
  calls.length = 0;
  vi.useFakeTimers();
  setting.show(
    <>
      <Visit />
      <Visit />
    </>,
  );
  await act(() => vi.advanceTimersByTimeAsync(0));
}

function look(visibilityState: "visible" | "hidden"): void {
  vi.spyOn(document, "visibilityState", "get").mockReturnValue(visibilityState);
  document.dispatchEvent(new Event("visibilitychange"));
}

function transition(name: "pagehide" | "pageshow", persisted: boolean): void {
  window.dispatchEvent(Object.assign(new Event(name), { persisted }));
}

test("a visit is said once, whatever StrictMode and many components do, and again while it is open", async () => {
  await visit();
  expect(said()).toEqual(["stay"]);
  expect(calls[0]?.path).toBe("/api/sessions/visit/stay");
  // Again soon: the page that was here before may have said `leave` a moment too late.
  await act(() => vi.advanceTimersByTimeAsync(10_000));
  expect(said()).toHaveLength(2);
  await act(() => vi.advanceTimersByTimeAsync(80_000));
  expect(said()).toEqual(["stay", "stay", "stay", "stay"]);
});

test("a page behind another window keeps its place, and one that is looked at again says so at once", async () => {
  await visit();
  look("hidden");
  await act(() => vi.advanceTimersByTimeAsync(45_000));
  expect(said()).toHaveLength(3);
  look("visible");
  await act(() => vi.advanceTimersByTimeAsync(0));
  expect(said()).toEqual(["stay", "stay", "stay", "stay"]);
});

test("leaving for good is said at once, with the credential, in a request that outlives the page", async () => {
  await visit();
  transition("pagehide", false);
  expect(said()).toEqual(["stay", "leave"]);
  expect(calls[1]?.init).toMatchObject({
    method: "POST",
    keepalive: true,
    headers: { Authorization: "Bearer secret" },
  });
});

test("a page that the browser keeps is not left, and says that it is back", async () => {
  await visit();
  transition("pagehide", true);
  expect(said()).toEqual(["stay"]);
  transition("pageshow", true);
  await act(() => vi.advanceTimersByTimeAsync(0));
  expect(said()).toEqual(["stay", "stay"]);
});

test("a part that is taken away ends nothing, and says nothing more", async () => {
  calls.length = 0;
  vi.useFakeTimers();
  const shown = setting.show(<Visit />);
  await act(() => vi.advanceTimersByTimeAsync(0));
  shown.unmount();
  await act(() => vi.advanceTimersByTimeAsync(300_000));
  transition("pagehide", false);
  expect(said()).toEqual(["stay"]);
});

test("a visit keeps its name while the tab is open", () => {
  const name = visitSession();
  expect(name).toMatch(/^[0-9a-f]{24}$/);
  expect(visitSession()).toBe(name);
});
