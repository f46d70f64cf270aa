import { queryOptions, useQuery } from "@tanstack/react-query";
import { createLazyRoute, Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { Bar } from "../components/Bar";
import { Chart, type Ink, type Line } from "../components/Chart";
import { Empty } from "../components/Empty";
import { ErrorPanel } from "../components/ErrorPanel";
import { FirstRun } from "../components/FirstRun";
import { Guarded } from "../components/Guarded";
import { Icon } from "../components/Icon";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Sparkline } from "../components/Sparkline";
import { Stat, StatRow } from "../components/Stat";
import { useLive } from "../hooks/useLive";
import { api, type Schemas } from "../services/api";
import {
  costPer100,
  count,
  latest,
  linesBy,
  RANGE_WORDS,
  rangeTotals,
  searchForReason,
  seconds,
  secondsOnAxis,
  share,
  spoken,
  stepWords,
  total,
  totals,
} from "../services/figures";
import { formatCapped, formatCount, formatDecimal, formatDuration, formatShort, plural } from "../services/format";
import { overviewQuery } from "../services/queries";
import type { Overview, Range } from "../services/shapes";
import styles from "./overview.module.css";
import { RANGES } from "./overview.search";

export const Route = createLazyRoute("/")({ component: OverviewPage });

const EVERY_MS: Record<Range, number> = { "1h": 4_000, "6h": 5_000, "24h": 5_000, "7d": 30_000, "30d": 30_000 };

/** Are people waiting, and is the money right? */
function OverviewPage() {
  const { range = "1h", by = "plan" } = Route.useSearch();
  const query = useLive(overviewQuery(range), EVERY_MS[range]);
  return (
    <Page
      title="Overview"
      actions={
        <>
          <LiveNote at={query.dataUpdatedAt} isFailing={query.isError} />
          <Ranges range={range} />
        </>
      }
    >
      <Loaded query={query} what="the figures">
        {(overview) => <Figures overview={overview} range={range} by={by} />}
      </Loaded>
      {query.isError && range !== "1h" && (
        <p>
          If it takes too long,{" "}
          <Link to="/" search={{ range: "1h", by }}>
            look at the last hour only
          </Link>
          .
        </p>
      )}
      {query.data === undefined && query.isError && <Stopgap />}
    </Page>
  );
}

function Ranges({ range }: { range: Range }) {
  return (
    <nav className={styles.ranges} aria-label="Range">
      {RANGES.map((one) => (
        <Link
          key={one}
          to="/"
          search={(old) => ({ ...old, range: one })}
          className="button"
          aria-label={`${one}, ${RANGE_WORDS[one]}`}
          aria-current={one === range ? "true" : undefined}
          data-on={one === range || undefined}
          replace
        >
          {one}
        </Link>
      ))}
    </nav>
  );
}

function Figures({ overview, range, by }: { overview: Overview; range: Range; by: "plan" | "tool" }) {
  const sums = useMemo(() => rangeTotals(overview), [overview]);
  const isQuiet = sums.submitted + sums.completed + sums.failed + sums.waiting + sums.running === 0;
  // A quiet hour is not a first run: only where no job exists at all are the first steps shown.
  const anyJob = useQuery({
    queryKey: ["jobs", "any"],
    enabled: isQuiet,
    queryFn: ({ signal }) => api.get("/api/admin/jobs", { query: { limit: 1 }, signal }),
  });
  if (isQuiet && anyJob.data?.items.length === 0) return <FirstRun />;
  return (
    <div className={styles.figures}>
      <Alerts overview={overview} />
      <Guarded what="the totals">
        <div className={styles.totals}>
          <Totals overview={overview} range={range} />
        </div>
      </Guarded>
      <div className={styles.grid}>
        <Guarded what="the queue depth">
          <Depth overview={overview} range={range} by={by} />
        </Guarded>
        <Guarded what="the waiting times">
          <Waits overview={overview} range={range} />
        </Guarded>
        <Guarded what="the throughput">
          <Throughput overview={overview} range={range} />
        </Guarded>
        <Guarded what="the running times">
          <Runs overview={overview} range={range} />
        </Guarded>
        <Guarded what="the pools">
          <PoolsPanel pools={overview.pools} overview={overview} />
        </Guarded>
        <Guarded what="the failures">
          <Failures overview={overview} range={range} />
        </Guarded>
        <Guarded what="the credits">
          <Credits overview={overview} range={range} />
        </Guarded>
        <Guarded what="the provider cost">
          <ProviderCost overview={overview} range={range} />
        </Guarded>
      </div>
      <Guarded what="the machines">
        <Machines overview={overview} />
      </Guarded>
    </div>
  );
}

function Alerts({ overview }: { overview: Overview }) {
  if (overview.alerts.length === 0) return null;
  return (
    <section aria-label="Alerts">
      <ul className={styles.alerts}>
        {overview.alerts.map((alert) => (
          <li key={alert.code + alert.text} className={styles.alert} data-severity={alert.severity}>
            <Icon name={alert.severity === "critical" ? "dead" : "help"} />
            <span>
              <strong>{alert.severity === "critical" ? "Critical" : "Warning"}</strong> {alert.text}
            </span>
            <ConsoleLink path={alert.link}>Look</ConsoleLink>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A link that the server named, such as `/pools`: a path of this console, never an address elsewhere. */
function ConsoleLink({ path, children }: { path: string; children: ReactNode }) {
  if (!/^\/(?![/\\])/.test(path)) return null;
  return <Link to={path as "/"}>{children}</Link>;
}

function Totals({ overview, range }: { overview: Overview; range: Range }) {
  const sums = rangeTotals(overview);
  const ended = sums.completed + sums.failed + sums.cancelled;
  const failedShare = share(sums.failed, ended);
  const p50 = latest(overview.wait_p50);
  const p95 = latest(overview.wait_p95);
  const jobs = (search: string, value: ReactNode) => (
    <Link to="/jobs" search={{ search }}>
      {value}
    </Link>
  );
  return (
    <StatRow>
      <Stat label="Waiting now" value={jobs("state:queued", formatShort(sums.waiting))} note="ready and parked" />
      <Stat
        label="Running now"
        value={jobs("state:running,starting", formatShort(sums.running))}
        note={sums.slots === null ? "a pool has no limit" : `of ${plural(sums.slots, "slot")}`}
      />
      <Stat
        label="Latest wait, p95"
        value={jobs("state:queued", p95 === null ? "–" : formatDuration(p95))}
        note={p50 === null ? "no claims yet" : `p50 ${formatDuration(p50)}`}
      />
      <Stat
        label="Completed"
        value={jobs(`state:completed since:${range}`, formatShort(sums.completed))}
        note={`of ${formatShort(sums.submitted)} submitted`}
      />
      <Stat
        label="Failed"
        value={jobs(`state:failed since:${range}`, formatShort(sums.failed))}
        note={failedShare === null ? "nothing ended" : `${failedShare} of what ended`}
        hue={sums.failed > 0 ? "failed" : undefined}
      />
      <Stat
        label="Dead letters"
        value={<Link to="/dead-letters">{formatCapped(overview.dead_letters, !overview.dead_letters_more)}</Link>}
        note="to requeue or discard"
        hue={overview.dead_letters > 0 ? "failed" : undefined}
      />
      <Stat
        label="Credits kept"
        value={<Link to="/accounts">{formatShort(sums.charged - sums.refunded)}</Link>}
        note={`${formatShort(sums.refunded)} returned`}
      />
      <Stat
        label="Workers"
        value={<Link to="/workers">{formatCount(overview.workers.alive)}</Link>}
        note={overview.workers.silent > 0 ? `${overview.workers.silent} silent` : "alive"}
        hue={overview.workers.silent > 0 ? "failed" : undefined}
      />
    </StatRow>
  );
}

interface PanelProps {
  overview: Overview;
  range: Range;
}

function inkAt(index: number): Ink {
  return `chart-${(index % 6) + 1}` as Ink;
}

function Depth({ overview, range, by }: PanelProps & { by: "plan" | "tool" }) {
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
      none={`Nobody waited in ${RANGE_WORDS[range]}.`}
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

function Waits({ overview, range }: PanelProps) {
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

function Runs({ overview, range }: PanelProps) {
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

function Throughput({ overview, range }: PanelProps) {
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

function Credits({ overview, range }: PanelProps) {
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

function ProviderCost({ overview, range }: PanelProps) {
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

function Panel({ title, link, children }: { title: string; link: ReactNode; children: ReactNode }) {
  return (
    <section className={`panel ${styles.panel}`} aria-label={title}>
      <div className={styles.panelHead}>
        <h2>{title}</h2>
        {link}
      </div>
      {children}
    </section>
  );
}

function PoolsPanel({ pools, overview }: { pools: Schemas["PoolView"][]; overview?: Overview }) {
  return (
    <Panel title="Pools" link={<Link to="/pools">All pools</Link>}>
      {pools.length === 0 && <Empty title="No pools are declared." />}
      <ul className={styles.pools}>
        {pools.map((pool) => (
          <li key={pool.name}>
            <div className={styles.poolHead}>
              <Link
                to="/jobs"
                search={{ search: `pool:${pool.name} state:running,starting` }}
                className={styles.poolName}
              >
                {pool.name}
              </Link>
              {pool.paused && (
                <span className={styles.paused}>
                  <Icon name="pause" size={14} /> Paused
                </span>
              )}
              <span className="muted number">
                {formatCount(pool.busy)}{" "}
                {pool.slots === null ? "running, no limit" : `of ${plural(pool.slots, "slot")}`}
              </span>
              <Link to="/jobs" search={{ search: `pool:${pool.name} state:queued` }} className="number">
                {formatCount(pool.ready + pool.parked)} waiting
              </Link>
            </div>
            {pool.slots !== null && (
              <Bar
                label={`Pool ${pool.name}`}
                parts={[{ label: "running", value: pool.busy, hue: "running" }]}
                total={pool.slots}
              />
            )}
          </li>
        ))}
      </ul>
      {overview && overview.depth.length > 0 && (
        <div className={styles.spark}>
          <span className="muted">Waiting over time</span>
          <Sparkline
            values={totals(overview.depth, overview.times.length)}
            label={spoken("Waiting jobs", totals(overview.depth, overview.times.length), overview.times, count)}
            hue="waiting"
            width={160}
          />
        </div>
      )}
    </Panel>
  );
}

function Failures({ overview, range }: PanelProps) {
  const most = Math.max(1, ...overview.failures.map((one) => one.count));
  return (
    <Panel
      title="Failures by reason"
      link={
        <Link to="/jobs" search={{ search: `state:failed since:${range}` }}>
          All failed jobs
        </Link>
      }
    >
      {overview.failures.length === 0 ? (
        <Empty title={`Nothing failed in ${RANGE_WORDS[range]}.`} />
      ) : (
        <ol className={styles.failures}>
          {overview.failures.map((one) => (
            <li key={one.reason}>
              <Link to="/jobs" search={{ search: searchForReason(one.reason, range) }} title={one.reason}>
                {one.reason}
              </Link>
              <span className="number">{formatCount(one.count)}</span>
              <Bar label={one.reason} parts={[{ label: "failed", value: one.count, hue: "failed" }]} total={most} />
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function Machines({ overview }: { overview: Overview }) {
  const { workers, providers_down: down } = overview;
  return (
    <Panel title="Workers and providers" link={<Link to="/workers">All workers</Link>}>
      <ul className={styles.machines}>
        <li>
          <Icon name="check" className={styles.good} />
          <Link to="/workers">{plural(workers.alive, "worker")} alive</Link>
        </li>
        {workers.silent > 0 && (
          <li>
            <Icon name="stop" className={styles.bad} />
            <Link to="/workers">{plural(workers.silent, "worker")} silent</Link>
            <span className="muted">{workers.names_silent.join(", ")}</span>
          </li>
        )}
        {workers.alive === 0 && (
          <li>
            <Icon name="dead" className={styles.bad} />
            <span>
              No worker is alive: jobs wait until one starts (<code>ficha worker</code>).
            </span>
          </li>
        )}
        <li>
          <Icon name={down.length > 0 ? "dead" : "check"} className={down.length > 0 ? styles.bad : styles.good} />
          <Link to="/providers">{down.length === 0 ? "No provider is down" : `Provider down: ${down.join(", ")}`}</Link>
        </li>
      </ul>
    </Panel>
  );
}

const poolsQuery = queryOptions({
  queryKey: ["pools"],
  queryFn: ({ signal }) => api.get("/api/admin/pools", { signal }),
});

/** While the figures cannot be had, what else the server tells is shown: the pools as they are now. */
function Stopgap() {
  const pools = useLive(poolsQuery);
  if (pools.isError) return <ErrorPanel error={pools.error} what="the pools" />;
  return pools.data ? <PoolsPanel pools={pools.data.items} /> : null;
}
