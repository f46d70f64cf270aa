import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Schemas } from "../services/api";
import { client } from "../services/queries";
import type { SignedIn } from "../services/shapes";
import { Submits, ToolBrakes } from "./Brakes";

const signIn = (scope: SignedIn["scope"]) =>
  client.setQueryData(["sign-in"], { name: "ops", scope, account: null, expires_at: null, environment: null });

const sent: { path: string; body: unknown }[] = [];
let answer: () => Response;

beforeEach(() => {
  signIn("admin");
  sent.length = 0;
  answer = () => Response.json({});
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    sent.push({ path: url, body: init.body === undefined ? undefined : JSON.parse(String(init.body)) });
    return answer();
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const stopped: Schemas["BrakeView"] = {
  kind: "tool",
  name: "upscale",
  paused: true,
  closed: "It is being mended.",
  since: "2026-11-16T14:00:00Z",
};

function show(brakes: Schemas["BrakeView"][]) {
  render(
    <QueryClientProvider client={client}>
      <ToolBrakes tool="upscale" brakes={brakes} />
      <Submits kind="pool" name="gpu" brake={undefined} />
    </QueryClientProvider>,
  );
}

const isClosed = () => waitFor(() => expect(document.querySelector("dialog[open]")).toBeNull());

test("a tool is paused and closed only after a question, and closed only with a sentence", async () => {
  show([]);
  fireEvent.click(screen.getByLabelText("Pause tool upscale"));
  expect(sent).toEqual([]);
  fireEvent.click(screen.getByText("Pause upscale"));
  await isClosed();
  fireEvent.click(screen.getByLabelText("Close tool upscale"));
  fireEvent.click(screen.getByText("Close upscale"));
  expect(screen.getByRole("alert").textContent).toBe("Write the sentence that those who submit read.");
  fireEvent.change(screen.getByLabelText(/Sentence for those who submit/), { target: { value: " Back at noon. " } });
  fireEvent.click(screen.getByText("Close upscale"));
  await isClosed();
  expect(sent).toEqual([
    { path: "/api/admin/tools/upscale/pause", body: undefined },
    { path: "/api/admin/tools/upscale/close", body: { reason: "Back at noon." } },
  ]);
});

test("what is stopped is started again; a brake of another name is not its own", async () => {
  show([stopped, { ...stopped, kind: "pool" }, { ...stopped, name: "other" }]);
  fireEvent.click(screen.getByLabelText("Resume tool upscale"));
  fireEvent.click(screen.getByText("Resume upscale"));
  await isClosed();
  fireEvent.click(screen.getByLabelText("Open tool upscale"));
  fireEvent.click(screen.getByText("Open upscale"));
  await isClosed();
  expect(sent.map((one) => one.path)).toEqual(["/api/admin/tools/upscale/resume", "/api/admin/tools/upscale/open"]);
});

test("a refusal stays in the dialog, in the server's words", async () => {
  answer = () =>
    Response.json({ code: "UNKNOWN_POOL", detail: "There is no pool gpu.", retryable: false }, { status: 404 });
  show([]);
  fireEvent.click(screen.getByLabelText("Close pool gpu"));
  fireEvent.change(screen.getByLabelText(/Sentence/), { target: { value: "Back at noon." } });
  fireEvent.click(screen.getByText("Close gpu"));
  await waitFor(() => expect(screen.getByRole("alert").textContent).toBe("There is no pool gpu."));
  expect(sent).toEqual([{ path: "/api/admin/pools/gpu/close", body: { reason: "Back at noon." } }]);
});

test("who may only look has no buttons that stop or start", () => {
  signIn("viewer");
  show([stopped]);
  expect(screen.queryAllByRole("button")).toEqual([]);
});
