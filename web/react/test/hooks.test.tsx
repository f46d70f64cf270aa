import { act, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { jobJson, json, message, problem, receiptJson, stream } from "../../client/test/hostileServer";
import {
  type GenerationQueue,
  useBalance,
  useGenerationQueue,
  useJob,
  useLibrary,
  useProcessingButton,
  useTools,
} from "../src";
import { ACCOUNT, DONE, END, EVENTS, Setting, SUBMIT, settled, WAITS } from "./setting";

const setting = new Setting();

function JobPhase({ id }: { id: string }) {
  const { state, problem: why } = useJob(id);
  return <p>{why?.code ?? state?.phase ?? "nothing yet"}</p>;
}

let queue: GenerationQueue;

function Queue({ session }: { session?: string }) {
  queue = useGenerationQueue({ session });
  return <p data-testid="queue">{queue.status}</p>;
}

const status = () => screen.getByTestId("queue").textContent;

test("many components share one connection, also under StrictMode", async () => {
  setting.show(
    <>
      <JobPhase id="job-1" />
      <JobPhase id="job-1" />
      <JobPhase id="job-1" />
    </>,
  );
  await waitFor(() => expect(screen.getAllByText("waiting")).toHaveLength(3));
  expect(setting.server.of(EVENTS)).toHaveLength(1);
});

test("a component that goes away and comes back at once keeps it; the last to go closes it", async () => {
  let closed = 0;
  setting.server.on(EVENTS, (seen, response) => {
    response.on("close", () => {
      closed += 1;
    });
    return stream([WAITS], "open")(seen, response);
  });
  const shown = setting.show(<JobPhase id="job-1" />);
  await screen.findByText("waiting");
  shown.unmount();
  setting.show(<JobPhase id="job-1" />);
  await settled(150);
  expect(setting.server.of(EVENTS)).toHaveLength(1);
  expect(closed).toBe(0);
});

test("a job that is not there says so", async () => {
  setting.server.on(EVENTS, problem(404, "NOT_FOUND"));
  setting.show(<JobPhase id="job-1" />);
  await screen.findByText("NOT_FOUND");
});

test("a submit is followed from the press to its result, and the balance is read again", async () => {
  setting.server.on(SUBMIT, json(receiptJson(), 201));
  setting.server.on(EVENTS, stream([WAITS, END]));
  setting.show(<Queue session="visit" />);
  await settled();
  expect(status()).toBe("idle");
  let pressed: Promise<unknown> = Promise.resolve();
  act(() => {
    pressed = queue.submit("upscale", { scale: 2 });
  });
  expect(status()).toBe("uploading");
  expect(queue.isBusy).toBe(true);
  await act(() => pressed);
  await waitFor(() => expect(status()).toBe("done"));
  expect(queue.result).toEqual({ text: "made" });
  expect(queue.isBusy).toBe(false);
  expect(JSON.parse(setting.server.of(SUBMIT)[0]?.body ?? "")).toMatchObject({ session: "visit" });
  await waitFor(() => expect(setting.server.of("GET /api/account").length).toBeGreaterThan(0));
});

test("two presses are one job", async () => {
  setting.server.on(SUBMIT, json(receiptJson(), 201));
  setting.show(<Queue />);
  await settled();
  await act(() => Promise.all([queue.submit("upscale", {}), queue.submit("upscale", {})]));
  expect(setting.server.of(SUBMIT)).toHaveLength(1);
  expect(status()).toBe("waiting");
});

test("a refused submit says why, and another try may pass", async () => {
  setting.server.on(SUBMIT, problem(402, "INSUFFICIENT_CREDITS", { have: 1, need: 4 }), json(receiptJson(), 201));
  setting.show(<Queue />);
  await settled();
  await act(async () => expect(await queue.submit("upscale", {})).toBeNull());
  expect(queue.error?.code).toBe("INSUFFICIENT_CREDITS");
  expect(status()).toBe("idle");
  await act(() => queue.retry());
  expect(queue.error).toBeNull();
  expect(status()).toBe("waiting");
});

test("where one job is active already, it is found", async () => {
  setting.show(<Queue session="visit" />);
  await settled();
  setting.server.on(SUBMIT, problem(409, "ACTIVE_JOB_EXISTS", { job_id: "job-9" }));
  setting.server.on("GET /api/jobs/active", json({ active: true, job: jobJson({ id: "job-9", session: "other" }) }));
  await act(() => queue.submit("upscale", {}));
  await waitFor(() => expect(queue.active?.id).toBe("job-9"));
  expect(queue.error?.code).toBe("ACTIVE_JOB_EXISTS");
});

test("a page that is loaded again finds its job, also one that has ended meanwhile", async () => {
  sessionStorage.setItem("ficha:job:visit", "job-1");
  setting.server.on(EVENTS, stream([message("job", DONE), END]));
  setting.show(<Queue session="visit" />);
  await waitFor(() => expect(status()).toBe("done"));
  expect(queue.result).toEqual({ text: "made" });
});

test("a job that was remembered and is gone is not spoken of", async () => {
  sessionStorage.setItem("ficha:job:visit", "job-1");
  setting.server.on(EVENTS, problem(404, "NOT_FOUND"));
  setting.show(<Queue session="visit" />);
  await waitFor(() => expect(sessionStorage.getItem("ficha:job:visit")).toBeNull());
  expect(queue.error).toBeNull();
});

test("the account's active job is taken up, unless it is another visit's", async () => {
  setting.server.on("GET /api/jobs/active", json({ active: true, job: jobJson({ session: "visit" }) }));
  const shown = setting.show(<Queue session="visit" />);
  await waitFor(() => expect(status()).toBe("waiting"));
  expect(queue.active).toBeNull();
  shown.unmount();
  setting.show(<Queue session="another" />);
  await waitFor(() => expect(queue.active?.id).toBe("job-1"));
  expect(status()).toBe("idle");
});

test("a cancel gives the credits back", async () => {
  setting.server.on(SUBMIT, json(receiptJson(), 201));
  const cancelled = jobJson({ status: "cancelled", refunded: 4, position: null });
  setting.server.on("GET /api/jobs/job-1", json(cancelled));
  setting.server.on(
    "POST /api/jobs/job-1/cancel",
    json({ job_id: "job-1", changed: true, refunded: 4, new_balance: 24 }),
  );
  setting.show(<Queue />);
  await settled();
  await act(() => queue.submit("upscale", {}));
  await waitFor(() => expect(status()).toBe("waiting"));
  await settled();
  await act(() => queue.cancel());
  await waitFor(() => expect(status()).toBe("cancelled"));
  expect(queue.isCancelling).toBe(false);
});

test("a cancel while the submit is sent cancels the job that it makes", async () => {
  let answer: () => void = () => {};
  setting.server.on(SUBMIT, async (seen, response) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    json(receiptJson(), 201)(seen, response);
  });
  setting.server.on("GET /api/jobs/job-1", json(jobJson({ status: "cancelled", refunded: 4, position: null })));
  setting.server.on("POST /api/jobs/job-1/cancel", json({ job_id: "job-1", new_balance: 24 }));
  setting.show(<Queue />);
  await settled();
  act(() => void queue.submit("upscale", {}));
  await waitFor(() => expect(setting.server.of(SUBMIT)).toHaveLength(1));
  await act(() => queue.cancel());
  expect(queue.isCancelling).toBe(true);
  answer();
  await waitFor(() => expect(setting.server.of("POST /api/jobs/job-1/cancel")).toHaveLength(1));
});

test("a button cannot fire twice", async () => {
  const made: (() => void)[] = [];
  const work = vi.fn(() => new Promise<void>((resolve) => made.push(resolve)));
  function Button() {
    const { props, isBusy } = useProcessingButton(work);
    return (
      <button type="button" {...props}>
        {isBusy ? "busy" : "go"}
      </button>
    );
  }
  setting.show(<Button />);
  const button = screen.getByRole("button");
  expect(button.getAttribute("aria-disabled")).toBe("false");
  act(() => {
    button.click();
    button.click();
  });
  fireEvent.click(button);
  expect(work).toHaveBeenCalledTimes(1);
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect(button.hasAttribute("disabled")).toBe(false);
  await act(async () => made[0]?.());
  expect(button.textContent).toBe("go");
  fireEvent.click(button);
  expect(work).toHaveBeenCalledTimes(2);
});

test("a press while it works is the same one, with the newest act next time", async () => {
  const seen: number[] = [];
  let press: () => Promise<number> = async () => 0;
  let set: (value: number) => void = () => {};
  function Button() {
    const [value, setValue] = useState(1);
    set = setValue;
    press = useProcessingButton(async () => {
      seen.push(value);
      return value;
    }).press;
    return null;
  }
  setting.show(<Button />);
  await act(async () => {
    const one = press();
    expect(press()).toBe(one);
    await one;
  });
  act(() => set(2));
  await act(() => press());
  expect(seen).toEqual([1, 2]);
});

test("the balance shows what is expected, then what is true", async () => {
  let balance!: ReturnType<typeof useBalance>;
  function Balance() {
    balance = useBalance();
    return <p>{balance.balance ?? "?"}</p>;
  }
  setting.show(<Balance />);
  await screen.findByText("24");
  expect(setting.server.of("GET /api/account")).toHaveLength(1);
  act(() => void balance.expect(-4));
  expect(screen.getByText("20")).toBeTruthy();
  expect(balance.isExpected).toBe(true);
  setting.server.on("GET /api/account", json({ ...ACCOUNT, balance: 19 }));
  await act(() => balance.refresh());
  expect(screen.getByText("19")).toBeTruthy();
  const takeBack = balance.expect(-4);
  act(() => takeBack());
  expect(screen.getByText("19")).toBeTruthy();
  expect(balance.plan).toBe("pro");
});

test("a submit with a known price takes it at once, and a refusal gives it back", async () => {
  let answer: () => void = () => {};
  setting.server.on(SUBMIT, async (seen, response) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    problem(422, "INVALID_PAYLOAD")(seen, response);
  });
  function Both() {
    queue = useGenerationQueue();
    return <p data-testid="balance">{useBalance().balance ?? "?"}</p>;
  }
  setting.show(<Both />);
  await screen.findByText("24");
  act(() => void queue.submit("upscale", {}, { cost: 4 }));
  expect(screen.getByTestId("balance").textContent).toBe("20");
  await waitFor(() => expect(setting.server.of(SUBMIT)).toHaveLength(1));
  answer();
  await screen.findByText("24");
});

test("tools are read once", async () => {
  setting.server.on("GET /api/tools", json({ items: [{ name: "upscale", price: 4 }] }));
  function Tools() {
    return <p>{useTools().tools.map((tool) => tool.name)}</p>;
  }
  setting.show(
    <>
      <Tools />
      <Tools />
    </>,
  );
  await waitFor(() => expect(screen.getAllByText("upscale")).toHaveLength(2));
  expect(setting.server.of("GET /api/tools")).toHaveLength(1);
});

test("the library goes on page by page, and forgets what is removed", async () => {
  const item = (id: string) => ({ job: jobJson({ id }), files: [] });
  setting.server.on("GET /api/library", (seen, response) =>
    json(
      seen.query.get("cursor") ? { items: [item("c")], next: null } : { items: [item("a"), item("b")], next: "more" },
    )(seen, response),
  );
  setting.server.on("DELETE /api/library/a", json({ job_id: "a", changed: true, files: [] }));
  setting.server.on("DELETE /api/library/b", problem(409, "INVALID_STATE"));
  let library!: ReturnType<typeof useLibrary>;
  function Library() {
    // A query that is written anew in each render is the same query.
    library = useLibrary({ limit: 2, include: ["payload"] });
    return <p data-testid="library">{library.items.map(({ job }) => job.id).join(" ")}</p>;
  }
  setting.show(<Library />);
  const ids = () => screen.getByTestId("library").textContent;
  await waitFor(() => expect(ids()).toBe("a b"));
  expect(setting.server.of("GET /api/library")).toHaveLength(1);
  await act(() => library.more());
  expect(ids()).toBe("a b c");
  expect(library.hasMore).toBe(false);
  await act(() => library.remove("a"));
  expect(ids()).toBe("b c");
  await act(() => library.remove("b"));
  expect(ids()).toBe("b c");
  expect(library.error?.code).toBe("INVALID_STATE");
});

test("hooks without a provider say what is missing", () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  function Lost() {
    useBalance();
    return null;
  }
  expect(() => render(<Lost />)).toThrow(/need a <FichaProvider/);
});
