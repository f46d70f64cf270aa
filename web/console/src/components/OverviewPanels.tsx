import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "../services/api";
import { count, RANGE_WORDS, searchForReason, spoken, totals } from "../services/figures";
import { formatCount, plural } from "../services/format";
import type { Overview } from "../services/shapes";
import { Bar } from "./Bar";
import { Empty } from "./Empty";
import { Icon } from "./Icon";
import type { OverviewPart } from "./OverviewCharts";
import styles from "./OverviewPanels.module.css";
import { Sparkline } from "./Sparkline";

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

export function PoolsPanel({ pools, overview }: { pools: Schemas["PoolView"][]; overview?: Overview }) {
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

export function Failures({ overview, range }: OverviewPart) {
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

export function Machines({ overview }: { overview: Overview }) {
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
