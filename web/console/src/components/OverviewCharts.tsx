import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import {
  costPer100,
  count,
  latest,
  linesBy,
  RANGE_WORDS,
  seconds,
  secondsOnAxis,
  spoken,
  stepWords,
  total,
  totals,
} from "../services/figures";
import { formatDecimal, formatShort } from "../services/format";
import type { Overview, Range } from "../services/shapes";
import { Chart, type Ink, type Line } from "./Chart";
import styles from "./OverviewCharts.module.css";

/** What every part of the overview gets. */
export interface OverviewPart {
  overview: Overview;
  range: Range;
}

function inkAt(index: number): Ink {
  return `chart-${(index % 6) + 1}` as Ink;
}

export function Depth({ overview, range, by }: OverviewPart & { by: "plan" | "tool" }) {
  const lines = useMemo(
    () =>
      linesBy(overview.depth, by, overview.times.length).map((line, index): Line => ({ ...line, ink: inkAt(index) })),
    [overview, by],
  );
  const all = totals(overview.depth, overview.times.length);
  return (
    <Chart
      title="Queue depth"
      times={overview.times}
      lines={lines}
      isStacked
      isWhole
      none={`The queue was empty at each count in ${RANGE_WORDS[range]}.`}
      format={count}
      summary={`Over ${RANGE_WORDS[range]}. ${spoken("Waiting jobs", all, overview.times, count)} ${lines
        .map((line) => `${line.name}: now ${count(latest(line.values) ?? 0)}.`)
        .join(" ")}`}
      aside={
        <span className={styles.switch}>
          by{" "}
          {(["plan", "tool"] as const).map((one) => (
            <Link
              key={one}
              to="/"
              search={(old) => ({ ...old, by: one })}
              replace
              aria-current={one === by ? "true" : undefined}
              data-on={one === by || undefined}
            >
              {one}
            </Link>
          ))}
        </span>
      }
    />
  );
}

export function Waits({ overview, range }: OverviewPart) {
  const lines = useMemo(
    (): Line[] => [
      { name: "p50", values: overview.wait_p50, ink: "chart-1" },
      { name: "p95", values: overview.wait_p95, ink: "chart-2", isDashed: true },
    ],
    [overview],
  );
  return (
    <Chart
      title="Wait before the start"
      times={overview.times}
      lines={lines}
      none={`No job started in ${RANGE_WORDS[range]}.`}
      format={seconds}
      formatAxis={secondsOnAxis}
      summary={`Over ${RANGE_WORDS[range]}. ${spoken("Half waited at most", overview.wait_p50, overview.times, seconds)} ${spoken("95 of 100 at most", overview.wait_p95, overview.times, seconds)}`}
    />
  );
}

export function Runs({ overview, range }: OverviewPart) {
  const lines = useMemo(
    (): Line[] => [
      { name: "p50", values: overview.run_p50, ink: "chart-1" },
      { name: "p95", values: overview.run_p95, ink: "chart-2", isDashed: true },
    ],
    [overview],
  );
  return (
    <Chart
      title="Run time"
      times={overview.times}
      lines={lines}
      none={`No job ended in ${RANGE_WORDS[range]}.`}
      format={seconds}
      formatAxis={secondsOnAxis}
      summary={`Over ${RANGE_WORDS[range]}. ${spoken("Half ran at most", overview.run_p50, overview.times, seconds)} ${spoken("95 of 100 at most", overview.run_p95, overview.times, seconds)}`}
    />
  );
}

export function Throughput({ overview, range }: OverviewPart) {
  const lines = useMemo((): Line[] => {
    const length = overview.times.length;
    return [
      { name: "submitted", values: totals(overview.submitted, length), ink: "chart-6", isDashed: true },
      { name: "completed", values: totals(overview.completed, length), ink: "done" },
      { name: "failed", values: totals(overview.failed, length), ink: "failed" },
      { name: "cancelled", values: totals(overview.cancelled, length), ink: "chart-2" },
    ];
  }, [overview]);
  const step = stepWords(overview.step_s);
  return (
    <Chart
      title={`Jobs per ${step}`}
      times={overview.times}
      lines={lines}
      isWhole
      format={count}
      summary={`Over ${RANGE_WORDS[range]}, per ${step}. ${lines
        .map((line) => `${line.name}: ${count(total(line.values))} in all.`)
        .join(" ")}`}
    />
  );
}

export function Credits({ overview, range }: OverviewPart) {
  const lines = useMemo(
    (): Line[] => [
      { name: "granted", values: overview.granted, ink: "chart-3", isBars: true },
      { name: "charged", values: overview.charged, ink: "chart-1" },
      { name: "returned", values: overview.refunded, ink: "failed", isDashed: true },
    ],
    [overview],
  );
  return (
    <Chart
      title="Credits in and out"
      times={overview.times}
      lines={lines}
      isWhole
      format={formatShort}
      summary={`Over ${RANGE_WORDS[range]}. ${lines.map((line) => `${line.name}: ${count(total(line.values))} credits in all.`).join(" ")}`}
    />
  );
}

export function ProviderCost({ overview, range }: OverviewPart) {
  const lines = useMemo(
    (): Line[] => [{ name: "provider cost", values: overview.provider_cost, ink: "chart-5" }],
    [overview],
  );
  const per100 = costPer100(overview);
  const words =
    total(overview.provider_cost) === 0
      ? "no provider cost"
      : per100 === null
        ? "no credits were kept"
        : `${formatDecimal(round(per100))} for each 100 credits kept`;
  return (
    <Chart
      title="Provider cost and margin"
      times={overview.times}
      lines={lines}
      format={(value) => formatDecimal(round(value))}
      summary={`Over ${RANGE_WORDS[range]}. Providers took ${formatDecimal(round(total(overview.provider_cost)))} in all: ${words}.`}
      aside={
        <Link to="/providers" className={styles.margin} title="Provider cost against the credits that were kept">
          {words}
        </Link>
      }
    />
  );
}

/** Cents, and two digits of what is less: a model's picture can cost 0.0004. */
const round = (value: number): number =>
  Math.abs(value) >= 1 ? Math.round(value * 100) / 100 : Number(value.toPrecision(2));
