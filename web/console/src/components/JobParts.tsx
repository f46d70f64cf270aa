// The parts of a job's page that list or draw something.
import { Link } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import { formatBytes, formatClock, formatCount, formatCredits, formatDuration, formatFull } from "../services/format";
import { timesOf } from "../services/job-rows";
import { type EventLine, eventLines, runsSummary } from "../services/job-words";
import type { JobPage } from "../services/shapes";
import { Icon } from "./Icon";
import { JobLink } from "./JobLink";
import styles from "./JobParts.module.css";
import { JsonView } from "./JsonView";
import { fileAddress } from "./Preview";
import { StateBadge } from "./StateBadge";
import { TimeAgo } from "./TimeAgo";

interface PartProps {
  page: JobPage;
}

/** Waiting against running as a bar, and every event below it. */
export function Timeline({ page }: PartProps) {
  const [isFull, setFull] = useState(false);
  const lines = eventLines(page.events);
  const { waited, ran } = timesOf(page.job, new Date());
  const whole = (waited ?? 0) + (ran ?? 0);
  const first = page.events[0] ? Date.parse(page.events[0].at) : 0;
  const folded = !isFull && lines.length > 40 ? lines.slice(-40) : lines;
  return (
    <>
      {whole > 0 && (
        <div
          className={styles.span}
          role="img"
          aria-label={`Waited ${formatDuration(waited ?? 0)}, ran ${formatDuration(ran ?? 0)}`}
        >
          <span className={styles.waited} style={{ flexGrow: (100 * (waited ?? 0)) / whole }}>
            waited {formatDuration(waited ?? 0)}
          </span>
          {ran !== null && (
            <span className={styles.ran} style={{ flexGrow: (100 * ran) / whole }}>
              ran {formatDuration(ran)}
            </span>
          )}
        </div>
      )}
      {folded.length < lines.length && (
        <button type="button" className="button plain" onClick={() => setFull(true)}>
          {formatCount(lines.length - folded.length)} earlier events
        </button>
      )}
      <ol className={styles.timeline}>
        {folded.map((line) => (
          <TimelineLine key={line.key} line={line} since={(Date.parse(line.at) - first) / 1000} />
        ))}
      </ol>
      {page.more_events && <p className="muted">There are more events than this page shows.</p>}
    </>
  );
}

function TimelineLine({ line, since }: { line: EventLine; since: number }) {
  const asJob = (line.event.data as Record<string, unknown>).as_job;
  return (
    <li className={styles.event} data-hue={line.hue}>
      <time dateTime={line.at} title={formatFull(new Date(line.at))}>
        {formatClock(new Date(line.at))}
      </time>
      <i aria-hidden="true" />
      <div className={styles.eventWords}>
        <span>{line.kind === "requeued" && typeof asJob === "string" ? "Runs again as " : line.words}</span>
        {line.kind === "requeued" && typeof asJob === "string" && <JobLink id={asJob} />}
        {line.more !== null && <span className={styles.more}>{line.more}</span>}
      </div>
      <span className={styles.after} title={`${formatDuration(Math.max(0, since))} after the submit`}>
        {line.after > 0 ? `+${formatDuration(line.after)}` : ""}
      </span>
    </li>
  );
}

export function Attempts({ page }: PartProps) {
  return (
    <ol className={styles.attempts}>
      {page.attempts.map((attempt) => {
        const end = attempt.ended_at === null ? Date.now() : Date.parse(attempt.ended_at);
        const took = Math.max(0, (end - Date.parse(attempt.began_at)) / 1000);
        return (
          <li key={attempt.number}>
            <span className={styles.number}>{attempt.number}</span>
            <StateBadge state={attempt.how} />
            <span className="muted">
              {attempt.worker ?? "no worker known"} · <TimeAgo at={attempt.began_at} /> · {formatDuration(took)}
            </span>
            {attempt.error !== null && <span className={styles.error}>{attempt.error}</span>}
          </li>
        );
      })}
    </ol>
  );
}

/** Each step where it lies in the run. A step whose length is not known is drawn as a mark. */
export function Steps({ page }: PartProps) {
  const [open, setOpen] = useState<string | null>(null);
  const ends = page.steps.map((step) => Date.parse(step.saved_at));
  const begins = page.steps.map((step, index) => (ends[index] ?? 0) - (step.took_s ?? 0) * 1000);
  const started = page.job.started_at === null ? Number.POSITIVE_INFINITY : Date.parse(page.job.started_at);
  const first = Math.min(started, ...begins);
  const last = Math.max(...ends, first + 1);
  const share = (ms: number) => `${Math.max(0, Math.min(100, (100 * (ms - first)) / (last - first)))}%`;
  return (
    <ol className={styles.steps}>
      {page.steps.map((step, index) => (
        <Fragment key={step.name}>
          <li>
            <button
              type="button"
              className={styles.stepName}
              aria-expanded={open === step.name}
              onClick={() => setOpen(open === step.name ? null : step.name)}
            >
              <Icon name={open === step.name ? "down" : "right"} size={12} />
              <span>{step.name}</span>
            </button>
            <span className={styles.track} aria-hidden="true">
              <span
                className={step.took_s === null ? styles.mark : styles.took}
                style={{
                  left: share(begins[index] ?? first),
                  width: step.took_s === null ? undefined : `max(3px, ${(100 * step.took_s * 1000) / (last - first)}%)`,
                }}
              />
            </span>
            <span className={styles.length}>{step.took_s === null ? "–" : formatDuration(step.took_s)}</span>
          </li>
          {open === step.name && (
            <li className={styles.stepResult}>
              <span className="muted">
                Stored <TimeAgo at={step.saved_at} />
              </span>
              <JsonView of={step} field="result" label={`result of ${step.name}`} />
            </li>
          )}
        </Fragment>
      ))}
    </ol>
  );
}

/** The last runs of the tool, the oldest on the left; the sentence says what the bars show, a table has them all. */
export function RecentRuns({ page }: PartProps) {
  const [isTable, setTable] = useState(false);
  const runs = [...page.recent_runs].reverse();
  const own = timesOf(page.job, new Date()).ran;
  const summary = runsSummary(page.recent_runs, own);
  if (runs.length === 0) return <p className="muted">{summary}</p>;
  const most = Math.max(own ?? 0, ...runs.map((run) => run.run_s), 0.001);
  // Few runs keep the width of many, and stand at the right, where the newest is.
  const columns = Math.max(runs.length, 30);
  const height = (value: number) => Math.max(2, (value / most) * 64);
  return (
    <>
      <div className={styles.runsHead}>
        <p className="muted">{summary}</p>
        <button
          type="button"
          className="button plain icon"
          aria-pressed={isTable}
          aria-label="Recent runs as a table"
          onClick={() => setTable(!isTable)}
        >
          <Icon name="table" />
        </button>
      </div>
      {isTable ? (
        <div className={styles.runsTable} role="region" aria-label="Recent runs" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">State</th>
                <th scope="col">Ended</th>
                <th scope="col">Ran</th>
              </tr>
            </thead>
            <tbody>
              {page.recent_runs.map((run) => (
                <tr key={run.job_id}>
                  <td>
                    <JobLink id={run.job_id} />
                  </td>
                  <td>
                    <StateBadge state={run.status} />
                  </td>
                  <td>
                    <TimeAgo at={run.finished_at} />
                  </td>
                  <td>{formatDuration(run.run_s)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <svg
          className={styles.runs}
          viewBox={`0 0 ${columns * 10} 66`}
          preserveAspectRatio="none"
          role="img"
          aria-label={summary}
        >
          {runs.map((run, index) => (
            <rect
              key={run.job_id}
              data-status={run.status}
              data-own={run.job_id === page.job.id || undefined}
              x={(columns - runs.length + index) * 10 + 1.5}
              width={7}
              y={66 - height(run.run_s)}
              height={height(run.run_s)}
            />
          ))}
          {own !== null && <line x1={0} x2={columns * 10} y1={66 - height(own)} y2={66 - height(own)} />}
        </svg>
      )}
    </>
  );
}

export function Ledger({ page }: PartProps) {
  if (page.entries.length === 0)
    return <p className="muted">No ledger line: it was free, or its lines are older than kept.</p>;
  return (
    <>
      <ul className={styles.ledger}>
        {page.entries.map((entry) => (
          <li key={entry.number}>
            <span>
              {entry.kind} <span className="muted">#{entry.number}</span>
            </span>
            <b data-gain={entry.amount > 0 || undefined}>{formatCredits(entry.amount, true)}</b>
            <span className="muted">
              balance {formatCount(entry.balance_after)} · <TimeAgo at={entry.at} />
            </span>
            {entry.reason && <span className={styles.reason}>{entry.reason}</span>}
          </li>
        ))}
      </ul>
      <p className={styles.sum}>
        Charged {formatCount(page.job.charged)}, returned {formatCount(page.job.refunded)}:{" "}
        <b>{formatCredits(page.job.charged - page.job.refunded)} kept</b>
      </p>
    </>
  );
}

export function Files({ page }: PartProps) {
  return (
    <ul className={styles.files}>
      {page.files.map((file) => (
        <li key={file.id}>
          <Icon name="file" />
          <div>
            {file.state === "stored" ? (
              <a href={fileAddress(file)} target="_blank" rel="noreferrer">
                {file.name}
              </a>
            ) : (
              <span>
                {file.name} ({file.state})
              </span>
            )}
            <div className="muted">
              {file.role} · {file.media_type} · {formatBytes(file.size)}
            </div>
          </div>
        </li>
      ))}
    </ul>
  );
}

/** What the provider sent back, each call folded. */
export function Callbacks({ page }: PartProps) {
  const calls = page.events.filter((event) => event.kind === "callback");
  return (
    <>
      {calls.map((event) => (
        <details key={event.number} className={styles.call}>
          <summary>
            {String((event.data as Record<string, unknown>).verdict ?? "call")} · <TimeAgo at={event.at} />
          </summary>
          <JsonView of={event} field="data" label="call" />
        </details>
      ))}
      {calls.length === 0 && page.job.callbacks > 0 && (
        <p className="muted">
          The calls are no longer kept. <Link to="/providers">All providers</Link>
        </p>
      )}
    </>
  );
}
