import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { client } from "../services/queries";
import { Broken } from "./Broken";

afterEach(() => {
  cleanup();
  client.clear();
  vi.unstubAllGlobals();
});

const show = (words: string) =>
  render(
    <QueryClientProvider client={client}>
      <Broken error={new Error(words)} reset={() => {}} />
    </QueryClientProvider>,
  );

test.each(["Unable to preload CSS for /console/assets/Bar.css", "Failed to fetch dynamically imported module: /x.js"])(
  "%s: a server that is down is not an update",
  async (words) => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
    show(words);
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("This page cannot be opened");
    expect(screen.getByText("The server does not answer.")).toBeTruthy();
    expect(screen.queryByText(/preload|imported module/)).toBeNull();
  },
);

test("a part that a server which answers no longer has is an update", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("ok")));
  show("Unable to preload CSS for /console/assets/Bar.css");
  expect(await screen.findByText("There is a newer console")).toBeTruthy();
});
