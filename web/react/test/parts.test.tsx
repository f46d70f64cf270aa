import type { Job, JobState, WaitState } from "@ficha/client";
import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import axe from "axe-core";
import { expect, test, vi } from "vitest";
import { jobJson, json, message, stream } from "../../client/test/hostileServer";
import { ActiveJobNotice, QueuePosition, type QueuePositionProps, ResultPreview, shownIn } from "../src";
import { Setting, settled } from "./setting";

const setting = new Setting();
const job = (fields: Partial<Record<keyof Job, unknown>> = {}): Job => jobJson(fields) as unknown as Job;
const followed = { connection: "live", problem: null } as const;
const PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";

function waiting(position: number, wait: Partial<WaitState> = {}): JobState {
  const own = { position, of: 12, estimate: 38, reason: "place", isOvertaken: false, retryAt: null, ...wait } as const;
  return { ...followed, phase: "waiting", job: job(), wait: own };
}

function running(progress: number | null, partial: unknown = null): JobState {
  const since = new Date();
  return { ...followed, phase: "running", job: job({ units: 3 }), progress, partial, since, usual: null };
}

const failed: JobState = { ...followed, phase: "failed", job: job({ user_error: "too dark", refunded: 4 }) };

function around(state: JobState | null, props: Partial<QueuePositionProps> = {}) {
  return setting.around(<QueuePosition state={state} {...props} />);
}

const status = () => screen.getByRole("status").textContent;
const alerted = () => screen.getByRole("alert").textContent;

test("there is one live region, it is empty at load, and speaks what changes", async () => {
  const shown = setting.show(<QueuePosition state={waiting(3)} />);
  await settled();
  expect(screen.getAllByRole("status")).toHaveLength(1);
  expect(status()).toBe("");
  expect(screen.getByText("You are #3 of 12. About 40 s.")).toBeTruthy();
  shown.rerender(around(running(null)));
  await settled();
  expect(status()).toBe("Making your picture.");
  shown.rerender(around({ ...followed, phase: "done", job: job({ status: "completed" }) }));
  await settled();
  expect(status()).toBe("Done.");
  expect(alerted()).toBe("");
});

test("the place is spoken every 15 seconds at most, and then the latest", async () => {
  vi.useFakeTimers();
  const shown = setting.show(<QueuePosition state={null} />);
  const at = async (state: JobState, ms: number) => {
    shown.rerender(around(state));
    await act(() => vi.advanceTimersByTimeAsync(ms));
  };
  await at(waiting(5), 1_000);
  expect(status()).toContain("#5");
  await at(waiting(4), 1_000);
  await at(waiting(3), 12_000);
  expect(status()).toContain("#5");
  await at(waiting(3), 1_500);
  expect(status()).toContain("#3");
  await at(waiting(3, { reason: "pool_paused" }), 0);
  expect(status()).toBe("Paused by the operator. Your place is kept.");
});

test("only a failure is an alert, with the provider's words and what came back", async () => {
  const onRetry = vi.fn();
  const shown = setting.show(<QueuePosition state={running(40)} />);
  await settled();
  shown.rerender(around(failed, { onRetry, ledgerHref: "/credits" }));
  await settled();
  expect(alerted()).toBe("It failed: too dark. 4 credits returned.");
  expect(status()).toBe("");
  expect(screen.getByText("It failed: too dark. 4 credits returned, you have 24.")).toBeTruthy();
  expect(screen.getByRole("link", { name: "See your credits" }).getAttribute("href")).toBe("/credits");
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(onRetry).toHaveBeenCalledTimes(1);
});

test("a bar has a value where one is known, and none where none is", async () => {
  const shown = setting.show(<QueuePosition state={running(40)} />);
  expect(screen.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("40");
  shown.rerender(around(running(null)));
  expect(screen.getByRole("progressbar").hasAttribute("aria-valuenow")).toBe(false);
  shown.rerender(around(waiting(3)));
  expect(screen.queryByRole("progressbar")).toBeNull();
  await settled();
});

test("a cancel is pressed once, and keeps its place while it works", async () => {
  const onCancel = vi.fn();
  const shown = setting.show(<QueuePosition state={waiting(3)} onCancel={onCancel} />);
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  shown.rerender(around(waiting(3), { onCancel, isCancelling: true }));
  const button = screen.getByRole("button", { name: "Cancelling…" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
  fireEvent.click(button);
  expect(onCancel).toHaveBeenCalledTimes(1);
  await settled();
});

test("pictures are shown as they arrive, and those to come have a place", async () => {
  const shown = setting.show(<QueuePosition state={running(30, { pictures: [PIXEL] })} />);
  expect(screen.getAllByRole("img")).toHaveLength(1);
  const first = screen.getByRole("img");
  expect(shown.container.querySelectorAll("li")).toHaveLength(3);
  shown.rerender(around(running(60, { pictures: [PIXEL, `${PIXEL}=`] })));
  expect(screen.getAllByRole("img")).toHaveLength(2);
  expect(screen.getAllByRole("img")[0]).toBeTruthy();
  expect(first.getAttribute("src")).toBe(PIXEL);
  await settled();
});

test("a stored picture is shown from a link of its own", async () => {
  const url = "http://inside/api/files/f1?expires=9&signature=abc";
  setting.server.on("GET /api/files/f1/link", json({ url, expires_at: "2026-11-16T10:00:00Z" }));
  setting.server.on("GET /api/files/f2/link", json({ url: url.replace("f1", "f2") }));
  const value = {
    image: { file: "f1", name: "cat.png", media_type: "image/png", size: 3 },
    archive: { file: "f2", name: "all.zip", media_type: "application/zip", size: 3 },
  };
  setting.show(<ResultPreview value={value} />);
  const image = await screen.findByRole("img");
  expect(image.getAttribute("src")).toContain("/api/files/f1?expires=9&signature=abc&inline=true");
  expect(image.getAttribute("alt")).toBe("Result 1");
  expect(await screen.findByRole("link", { name: "Download all.zip" })).toBeTruthy();
});

test("what a user or provider wrote is shown as text", async () => {
  const why = "<script>alert(1)</script><img src=x onerror=alert(1)>";
  const shown = setting.show(<QueuePosition state={{ ...followed, phase: "failed", job: job({ user_error: why }) }} />);
  expect(shown.container.querySelector("script, img")).toBeNull();
  expect(screen.getByText(`It failed: ${why}.`)).toBeTruthy();
  await settled();
});

test("an address of another site is never a picture", () => {
  expect(shownIn(["https://evil.example/x.png", "javascript:alert(1)", "data:text/html,<p>", PIXEL])).toHaveLength(1);
  expect(
    shownIn({ deep: { deeper: [{ file: "f", media_type: "image/png", name: "x" }] }, same: PIXEL, again: PIXEL }),
  ).toHaveLength(2);
  expect(shownIn(Array.from({ length: 500 }, (_none, at) => `${PIXEL}${at}`))).toHaveLength(48);
  expect(shownIn(null)).toEqual([]);
});

test("a job of another visit is noticed, shown and cancelled", async () => {
  const other = jobJson({ id: "job-9", session: "other" });
  setting.server.on("GET /api/jobs/active", json({ active: true, job: other }));
  setting.server.on("GET /api/jobs/job-9/events", stream([message("job", other)], "open"));
  setting.server.on("POST /api/jobs/job-9/cancel", json({ job_id: "job-9", new_balance: 24 }));
  setting.server.on("GET /api/jobs/job-9", json({ ...other, status: "cancelled", position: null }));
  const onShow = vi.fn();
  const shown = setting.show(<ActiveJobNotice session="visit" onShow={onShow} nameOf={() => "Upscale"} />);
  expect(screen.getByRole("status").textContent).toBe("");
  const notice = await waitFor(() => {
    const found = shown.container.querySelector<HTMLElement>(".ficha-notice");
    expect(found).not.toBeNull();
    return found as HTMLElement;
  });
  await waitFor(() => expect(notice.textContent).toContain("You are #3"));
  expect(screen.getByRole("status").textContent).toBe("A job of yours is under way: Upscale.");
  fireEvent.click(within(notice).getByRole("button", { name: "Show it" }));
  expect(onShow.mock.calls[0]?.[0].id).toBe("job-9");
  fireEvent.click(within(notice).getByRole("button", { name: "Cancel" }));
  await waitFor(() => expect(shown.container.querySelector(".ficha-notice")).toBeNull());
});

test("a notice of another job says what its tool makes", async () => {
  const other = jobJson({ id: "job-9", session: "other", status: "running", position: null, progress: 40 });
  setting.server.on("GET /api/jobs/active", json({ active: true, job: other }));
  setting.server.on("GET /api/jobs/job-9/events", stream([message("job", other)], "open"));
  const shown = setting.show(<ActiveJobNotice session="visit" makingOf={() => "Making your clip"} />);
  await waitFor(() => expect(shown.container.textContent).toContain("Making your clip, 40 %"));
});

test("no part has a serious violation", async () => {
  const states = [waiting(3), running(40, [PIXEL]), running(null), failed];
  const shown = setting.show(
    <main>
      {states.map((state) => (
        <QueuePosition
          key={`${state.phase} ${"progress" in state && state.progress}`}
          state={state}
          onCancel={() => {}}
          onRetry={() => {}}
        />
      ))}
      <ActiveJobNotice />
    </main>,
  );
  await settled();
  // Colours need a browser: they are judged where the pages are.
  const { violations } = await axe.run(shown.container, { rules: { "color-contrast": { enabled: false } } });
  expect(violations.filter(({ impact }) => impact === "serious" || impact === "critical")).toEqual([]);
});

test("the same in Portuguese", async () => {
  setting.show(<QueuePosition state={waiting(3)} onCancel={() => {}} />, "pt-BR");
  expect(screen.getByText("Você é o nº 3 de 12. Cerca de 40 s.")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Cancelar" })).toBeTruthy();
  await settled();
});
