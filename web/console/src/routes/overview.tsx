import { queryOptions, useQuery } from "@tanstack/react-query";
import { createLazyRoute, Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { ErrorPanel } from "../components/ErrorPanel";
import { FirstRun } from "../components/FirstRun";
import { Guarded } from "../components/Guarded";
import { Icon } from "../components/Icon";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Credits, Depth, ProviderCost, Runs, Throughput, Waits } from "../components/OverviewCharts";
import { Failures, Machines, PoolsPanel } from "../components/OverviewPanels";
import { Page } from "../components/Page";
import { Stat, StatRow } from "../components/Stat";
import { useLive } from "../hooks/useLive";
import { api } from "../services/api";
import { latest, RANGE_WORDS, rangeTotals, share } from "../services/figures";
import { formatCapped, formatCount, formatDuration, formatShort, plural } from "../services/format";
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
