import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, test, vi } from "vitest";
import { parseJson } from "../services/exact-json";
import { Bar } from "./Bar";
import { Chart } from "./Chart";
import { ConfirmDialog, type ConfirmDialogProps } from "./ConfirmDialog";
import { type Column, DataTable } from "./DataTable";
import { JsonView } from "./JsonView";
import { Loaded } from "./Loaded";
import { Pager } from "./Pager";
import { sparkLines } from "./Sparkline";
import { StateBadge } from "./StateBadge";
import { TimeAgo } from "./TimeAgo";

afterEach(cleanup);

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

test("a chart without one figure says so, and draws no axes", () => {
  const { container } = render(
    <Chart
      title="Queue depth"
      summary="Waiting jobs: no figures yet."
      times={["2026-11-16T14:00:00Z"]}
      lines={[]}
      none="The queue was empty at each count in the last hour."
      format={String}
    />,
  );
  expect(screen.getByText("The queue was empty at each count in the last hour.")).toBeTruthy();
  expect(container.querySelector("canvas")).toBeNull();
});

describe("ConfirmDialog", () => {
  const show = (more: Partial<ConfirmDialogProps> = {}) => {
    const onConfirm = vi.fn(async (_reason: string): Promise<unknown> => undefined);
    const onClose = vi.fn();
    render(
      <ConfirmDialog
        isOpen
        title="Requeue?"
        confirm="Requeue 2 jobs"
        onConfirm={onConfirm}
        onClose={onClose}
        {...more}
      />,
    );
    return { onConfirm, onClose, act: () => fireEvent.click(screen.getByText("Requeue 2 jobs")) };
  };

  test("says how many and what it costs", () => {
    show({ count: { number: 10_000, isExact: false, one: "job" }, money: { verb: "Requeue charges", credits: 812 } });
    expect(screen.getByText(/10,000\+ jobs/)).toBeTruthy();
    expect(screen.getByText(/Requeue charges 812 credits/)).toBeTruthy();
  });

  test("does nothing without a reason where one is wanted, and hands it over", async () => {
    const { onConfirm, onClose, act } = show({ reason: "required" });
    act();
    expect(onConfirm).not.toHaveBeenCalled();
    expect(screen.getByText(/Say why/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText(/Reason/), { target: { value: " a typo " } });
    act();
    await settle();
    expect(onConfirm).toHaveBeenCalledWith("a typo");
    expect(onClose).toHaveBeenCalledOnce();
  });

  test("wants the word typed for what is dangerous", async () => {
    const { onConfirm, act } = show({ typed: "discard" });
    act();
    expect(onConfirm).not.toHaveBeenCalled();
    fireEvent.change(screen.getByLabelText(/Type “discard”/), { target: { value: "discard" } });
    act();
    await settle();
    expect(onConfirm).toHaveBeenCalledOnce();
  });

  test("a double click acts once", async () => {
    const { onConfirm } = show();
    const button = screen.getByText("Requeue 2 jobs");
    fireEvent.click(button);
    fireEvent.click(button);
    fireEvent.submit(button.closest("form") as HTMLFormElement);
    await settle();
    expect(onConfirm).toHaveBeenCalledOnce();
  });

  test("stays open and says why when it failed", async () => {
    const onConfirm = vi.fn(() => Promise.reject(new Error("ana has 0 credits")));
    const { onClose, act } = show({ onConfirm });
    act();
    await settle();
    expect(onClose).not.toHaveBeenCalled();
    expect(screen.getByRole("alert").textContent).toContain("ana has 0 credits");
  });

  test("waits for fields that are not right yet", () => {
    const { onConfirm, act } = show({ problem: "Say how many credits." });
    act();
    expect(onConfirm).not.toHaveBeenCalled();
    expect(screen.getByRole("alert").textContent).toBe("Say how many credits.");
  });
});

describe("Pager", () => {
  test("goes on, and back through the same pages", () => {
    const onGo = vi.fn();
    const { rerender } = render(<Pager cursor={undefined} next="b" onGo={onGo} />);
    fireEvent.click(screen.getByText("Next"));
    rerender(<Pager cursor="b" next="c" onGo={onGo} />);
    fireEvent.click(screen.getByText("Next"));
    rerender(<Pager cursor="c" next={null} onGo={onGo} />);
    fireEvent.click(screen.getByText("Next"));
    fireEvent.click(screen.getByText("Previous"));
    rerender(<Pager cursor="b" next="c" onGo={onGo} />);
    fireEvent.click(screen.getByText("Previous"));
    expect(onGo.mock.calls.map(([to]) => to)).toEqual(["b", "c", "b", undefined]);
  });

  test("is a line of text where one page is all", () => {
    const { container } = render(<Pager cursor={undefined} next={null} onGo={() => {}} shown={[3, "job"]} />);
    expect(container.textContent).toBe("3 jobs, all shown.");
  });
});

describe("JsonView", () => {
  test("shows numbers as they were sent, and no secret", () => {
    const job = parseJson('{"payload":{"a":1e400,"b":12345678901234567890,"c":1.0,"token":"xyz","d":"<b>"}}') as object;
    const { container } = render(<JsonView of={job} field="payload" label="payload" />);
    expect(container.textContent).toMatch(/a: 1e400b: 12345678901234567890c: 1.0token: ••••••d: "<b>"/);
    expect(container.innerHTML).not.toContain("xyz");
  });

  test("a long list comes in pages", () => {
    const answer = { list: Array.from({ length: 250 }, (_, index) => index) };
    const { container } = render(<JsonView of={answer} field="list" label="list" />);
    expect(container.querySelectorAll("div > span").length).toBeLessThan(150);
    fireEvent.click(screen.getByText("150 more"));
    expect(container.textContent).toContain("249");
  });
});

describe("DataTable", () => {
  interface Row {
    name: string;
    size: number | null;
  }
  const rows: Row[] = [
    { name: "b", size: 10 },
    { name: "a", size: 9 },
    { name: "c", size: null },
  ];
  const columns: Column<Row>[] = [
    { id: "name", header: "Name", cell: (row) => row.name },
    { id: "size", header: "Size", cell: (row) => row.size ?? "–", sortBy: (row) => row.size },
  ];
  const names = () =>
    within(screen.getByRole("table"))
      .getAllByRole("row")
      .slice(1)
      .map((row) => row.textContent?.charAt(0));

  test("sorts a column, what is not there last", () => {
    render(<DataTable label="Things" columns={columns} rows={rows} rowKey={(row) => row.name} />);
    expect(names()).toEqual(["b", "a", "c"]);
    fireEvent.click(screen.getByRole("button", { name: "Size" }));
    const first = names();
    fireEvent.click(screen.getByRole("button", { name: "Size" }));
    expect([first, names()]).toEqual([
      ["b", "a", "c"],
      ["a", "b", "c"],
    ]);
    expect(screen.getByRole("columnheader", { name: "Size" }).getAttribute("aria-sort")).toBe("ascending");
  });

  test("arrows move between rows, Enter opens, Space chooses", async () => {
    const onOpen = vi.fn();
    const onSelect = vi.fn();
    render(
      <DataTable
        label="Things"
        columns={columns}
        rows={rows}
        rowKey={(row) => row.name}
        onOpen={onOpen}
        onSelect={onSelect}
      />,
    );
    const [, first, second] = screen.getAllByRole("row");
    first?.focus();
    fireEvent.keyDown(first as HTMLElement, { key: "ArrowDown" });
    await new Promise((resolve) => requestAnimationFrame(resolve));
    expect(document.activeElement).toBe(second);
    fireEvent.keyDown(second as HTMLElement, { key: "Enter" });
    fireEvent.keyDown(second as HTMLElement, { key: " " });
    expect(onOpen).toHaveBeenCalledWith(rows[1]);
    expect(onSelect.mock.calls[0]?.[0]).toEqual(new Set(["a"]));
  });

  test("a click on a button or in a dialog of a row does not open the row", () => {
    const onOpen = vi.fn();
    const acts: Column<Row>[] = [
      ...columns,
      {
        id: "acts",
        header: "",
        cell: () => (
          <>
            <button type="button">Pause</button>
            <dialog open>
              <p>Sure?</p>
            </dialog>
          </>
        ),
      },
    ];
    render(
      <DataTable label="Things" columns={acts} rows={rows.slice(0, 1)} rowKey={(row) => row.name} onOpen={onOpen} />,
    );
    fireEvent.click(screen.getByText("Pause"));
    fireEvent.click(screen.getByText("Sure?"));
    expect(onOpen).not.toHaveBeenCalled();
    fireEvent.click(screen.getByText("b"));
    expect(onOpen).toHaveBeenCalledOnce();
  });

  test("of many rows only some are drawn", () => {
    const many = Array.from({ length: 5000 }, (_, index) => ({ name: `row ${index}`, size: index }));
    render(<DataTable label="Things" columns={columns} rows={many} rowKey={(row) => row.name} />);
    expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("5001");
    expect(screen.getAllByRole("row").length).toBeLessThan(200);
  });
});

describe("Loaded", () => {
  const refetch = vi.fn();

  test("keeps old data, greyed, when a refresh fails", () => {
    const query = { data: "old words", error: new Error("no answer"), isFetching: false, refetch };
    render(
      <Loaded query={query} what="the pools">
        {(data) => <p>{data}</p>}
      </Loaded>,
    );
    expect(screen.getByText("old words")).toBeTruthy();
    expect(screen.getByRole("alert").textContent).toContain("What stands below is old");
    fireEvent.click(screen.getByText("Try again"));
    expect(refetch).toHaveBeenCalledOnce();
  });

  test("says that it loads before there is anything", () => {
    render(
      <Loaded query={{ data: undefined, error: null, isFetching: true, refetch }} what="the pools">
        {() => null}
      </Loaded>,
    );
    expect(screen.getByText("Loading the pools…")).toBeTruthy();
  });
});

describe("small parts", () => {
  test("a state has an icon and a word", () => {
    const { container } = render(<StateBadge state="cancelled" note="by ana" />);
    expect(container.textContent).toBe("Cancelled · by ana");
    expect(container.querySelector("svg")).toBeTruthy();
  });

  test("a state that nobody listed shows its own word", () => {
    const { container } = render(<StateBadge state="evaporated" />);
    expect(container.textContent).toBe("Evaporated");
  });

  test("a time says when in its title, and what is no time is shown as it is", () => {
    const { container } = render(
      <>
        <TimeAgo at="2020-01-01T00:00:00Z" />
        <TimeAgo at={null} never="never" />
        <TimeAgo at="soon" />
      </>,
    );
    expect(container.querySelector("time")?.getAttribute("dateTime")).toBe("2020-01-01T00:00:00.000Z");
    expect(container.querySelector("time")?.title).toContain("2020-01-01 00:00:00 UTC");
    expect(container.textContent).toMatch(/d agoneversoon$/);
  });

  test("a bar says its parts", () => {
    render(
      <Bar
        label="Jobs"
        parts={[
          { label: "done", value: 3, hue: "done" },
          { label: "failed", value: 0, hue: "failed" },
        ]}
        total={10}
      />,
    );
    expect(screen.getByRole("img").getAttribute("aria-label")).toBe("Jobs: 3 done of 10");
  });

  test("a sparkline has a gap where there is no number", () => {
    expect(sparkLines([0, 1, null, 2], 30, 12)).toEqual(["0.0,11.0 10.0,6.0", "30.0,1.0"]);
    expect(sparkLines([], 30, 12)).toEqual([]);
  });
});
