import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useIsDark } from "../hooks/useTheme";
import { axisWords, latest, lonely, type NamedValues, stacked, WHOLE_STEPS } from "../services/figures";
import { formatFull } from "../services/format";
import styles from "./Chart.module.css";
import { Icon } from "./Icon";

/** A colour of tokens.css. */
export type Ink =
  | "chart-1"
  | "chart-2"
  | "chart-3"
  | "chart-4"
  | "chart-5"
  | "chart-6"
  | "waiting"
  | "running"
  | "done"
  | "failed";

export interface Line extends NamedValues {
  ink: Ink;
  isDashed?: boolean;
  /** Bars instead of a line: for what happens now and then. */
  isBars?: boolean;
}

export interface ChartProps {
  title: string;
  /** What the chart says, in a sentence: spoken to those who do not see it. */
  summary: string;
  /** ISO times, oldest first. */
  times: readonly string[];
  lines: readonly Line[];
  /** Areas on top of each other instead of lines. */
  isStacked?: boolean;
  format: (value: number) => string;
  /** Shorter words for the axis; `format` unless told. */
  formatAxis?: (value: number) => string;
  /** Whether there is no half of what is counted: the axis then has whole numbers alone. */
  isWhole?: boolean;
  /** What is said in place of an empty chart. */
  none?: string;
  /** A switch or a figure beside the title. */
  aside?: ReactNode;
}

const HEIGHT = 190;

/** Lines over time on a canvas. The legend shows the values under the pointer; a table has them all. */
export function Chart({
  title,
  summary,
  times,
  lines,
  isStacked = false,
  format,
  formatAxis = format,
  isWhole = false,
  none = "No figures yet.",
  aside,
}: ChartProps) {
  const [isTable, setTable] = useState(false);
  const [at, setAt] = useState<number | null>(null);
  const id = useId();
  const shown = at ?? times.length - 1;
  const moment = times[shown];
  const isEmpty = lines.every((line) => latest(line.values) === null);
  return (
    <section className={`panel ${styles.chart}`} aria-labelledby={id}>
      <div className={styles.head}>
        <h2 id={id}>{title}</h2>
        {aside}
        <button
          type="button"
          className="button plain icon"
          aria-pressed={isTable}
          aria-label={`${title} as a table`}
          title="Table"
          onClick={() => setTable(!isTable)}
        >
          <Icon name="table" />
        </button>
      </div>
      <p className="spoken">{summary}</p>
      {isEmpty ? (
        <p className={styles.none}>{none}</p>
      ) : isTable ? (
        <Values title={title} times={times} lines={lines} format={format} />
      ) : (
        <>
          <Canvas
            times={times}
            lines={lines}
            isStacked={isStacked}
            isWhole={isWhole}
            format={formatAxis}
            onPoint={setAt}
          />
          <ul className={styles.legend} aria-hidden="true">
            {lines.map((line) => {
              const value = at === null ? latest(line.values) : line.values[at];
              return (
                <li key={line.name}>
                  <i className={`${styles.swatch} ${line.isDashed ? styles.dashed : ""}`} data-ink={line.ink} />
                  {line.name} <b>{value === null || value === undefined ? "–" : format(value)}</b>
                </li>
              );
            })}
            <li className={styles.moment}>
              {at !== null && moment !== undefined && formatFull(new Date(moment)).split(" · ")[0]}
            </li>
          </ul>
        </>
      )}
    </section>
  );
}

interface CanvasProps {
  times: readonly string[];
  lines: readonly Line[];
  isStacked: boolean;
  isWhole: boolean;
  format: (value: number) => string;
  onPoint: (index: number | null) => void;
}

function Canvas({ times, lines, isStacked, isWhole, format, onPoint }: CanvasProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const isDark = useIsDark();
  const shape = `${isStacked} ${isDark} ${lines.map((line) => `${line.name}/${line.ink}`).join()}`;

  // A new plot only where its shape changes; new values go into the one that is there.
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` stands for all that a plot is made of.
  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const ink = inks(host);
    const axis = {
      stroke: ink("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: ink("line"), width: 1 },
      ticks: { show: false },
    };
    const made = new uPlot(
      {
        width: host.clientWidth || 300,
        height: HEIGHT,
        padding: [10, 20, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { show: !isStacked, size: 7 }, drag: { x: false, y: false } },
        scales: { y: { range: (_plot, _min, max) => [0, !(max > 0) ? 1 : max * 1.08] } },
        axes: [
          { ...axis, grid: { show: false }, space: 70, size: 28, ...timeLabels },
          {
            ...axis,
            size: 52,
            space: 36,
            ...(isWhole ? { incrs: WHOLE_STEPS } : {}),
            values: (_plot, ticks) => ticks.map((tick) => format(tick)),
          },
        ],
        series: [
          {},
          ...drawOrder(lines, isStacked).map((line) => ({
            label: line.name,
            stroke: ink(line.ink),
            width: isStacked ? 1 : 1.75,
            dash: line.isDashed && !isStacked ? [5, 4] : undefined,
            fill: isStacked ? mixed(ink(line.ink), ink("surface")) : undefined,
            points: {
              show: true,
              size: 5,
              filter: (one: uPlot, index: number) => lonely(Array.from(one.data[index] ?? [])),
            },
            ...(line.isBars && !isStacked && uPlot.paths.bars
              ? { paths: uPlot.paths.bars({ size: [0.6, 8] }), fill: ink(line.ink), width: 0 }
              : {}),
          })),
        ],
        hooks: { setCursor: [(one) => onPoint(one.cursor.idx ?? null)] },
      },
      dataOf(times, lines, isStacked),
      host,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: host.clientWidth, height: HEIGHT }));
    observer.observe(host);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(dataOf(times, lines, isStacked));
  }, [times, lines, isStacked]);

  return <div ref={box} className={styles.canvas} aria-hidden="true" />;
}

const timeLabels = {
  values: (_plot: uPlot, ticks: number[], _axis: number, _space: number, step: number) =>
    ticks.map((tick) => axisWords(new Date(tick * 1000), step)),
};

/** Areas hide what is behind them: the highest of the pile is drawn first. */
function drawOrder<L extends NamedValues>(lines: readonly L[], isStacked: boolean): L[] {
  return isStacked ? [...lines].reverse() : [...lines];
}

function dataOf(times: readonly string[], lines: readonly Line[], isStacked: boolean): uPlot.AlignedData {
  const drawn = isStacked ? drawOrder(stacked(lines), true) : lines;
  return [times.map((time) => Date.parse(time) / 1000), ...drawn.map((line) => line.values)];
}

/** A canvas does not read CSS variables: the colours are read from an element that has them. */
function inks(host: HTMLElement): (name: string) => string {
  const probe = document.createElement("i");
  host.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = [
    "muted",
    "line",
    "surface",
    "waiting",
    "running",
    "done",
    "failed",
    ...[1, 2, 3, 4, 5, 6].map((n) => `chart-${n}`),
  ];
  const known = new Map(names.map((name) => [name, read(name)]));
  probe.remove();
  return (name) => known.get(name) ?? "gray";
}

/** Half of the one colour in the other, opaque: areas of a pile must hide each other. */
function mixed(one: string, other: string): string {
  const parts = (colour: string): number[] => (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  const [a, b] = [parts(one), parts(other)];
  return `rgb(${a.map((value, index) => Math.round(value * 0.55 + (b[index] ?? 0) * 0.45)).join(" ")})`;
}

const ROWS = 60;

function Values({ title, times, lines, format }: Pick<ChartProps, "title" | "times" | "lines" | "format">) {
  const newest = times
    .map((time, index) => ({ time, index }))
    .reverse()
    .slice(0, ROWS);
  return (
    <div className={styles.values} role="region" aria-label={`${title}, values`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {lines.map((line) => (
              <th key={line.name} scope="col">
                {line.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {newest.map(({ time, index }) => (
            <tr key={time}>
              <th scope="row">
                {formatFull(new Date(time))
                  .split(" · ")[0]
                  ?.replace(/ [A-Z]{3,4}[+\-\d]*$/, "")}
              </th>
              {lines.map((line) => {
                const value = line.values[index];
                return <td key={line.name}>{value === null || value === undefined ? "–" : format(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {times.length > ROWS && (
        <p className="muted">
          The newest {ROWS} of {times.length}.
        </p>
      )}
    </div>
  );
}
