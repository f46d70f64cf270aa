import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ActButton } from "../components/ActButton";
import { CopyText } from "../components/CopyText";
import { Empty } from "../components/Empty";
import { Guarded } from "../components/Guarded";
import { Icon } from "../components/Icon";
import { AccountLink, JobLink } from "../components/JobLink";
import { Attempts, Callbacks, Files, Ledger, RecentRuns, Steps, Timeline } from "../components/JobParts";
import { JsonView } from "../components/JsonView";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Preview } from "../components/Preview";
import { lookOf } from "../components/state-words";
import { TimeAgo } from "../components/TimeAgo";
import { useNow } from "../hooks/use-now";
import { useJobStream } from "../hooks/useJobStream";
import { useLive } from "../hooks/useLive";
import { api, Problem } from "../services/api";
import { formatCredits, formatDecimal, formatDuration } from "../services/format";
import { timesOf } from "../services/job-rows";
import { actWords, stateWords } from "../services/job-words";
import { jobPageQuery } from "../services/queries";
import { searchText } from "../services/search-text";
import type { JobAct, JobPage } from "../services/shapes";
import styles from "./job.module.css";

export const Route = createLazyRoute("/jobs/$job")({ component: JobRoute });

/** Why is it here, and what did it cost? */
function JobRoute() {
  const { job: id } = Route.useParams();
  return <JobOf key={id} id={id} />;
}

function JobOf({ id }: { id: string }) {
  const query = useLive({ ...jobPageQuery(id), placeholderData: undefined }, 10_000);
  const page = query.data;
  const isOver = page === undefined || page.job.finished_at !== null;
  const connection = useJobStream(id, isOver);
  const isMissing = query.error instanceof Problem && query.error.status === 404;
  return (
    <Page
      title={page ? page.job.tool : "Job"}
      tabTitle={page ? `${page.job.tool} of ${page.job.account}` : "Job"}
      lead={
        <span className={styles.lead}>
          {page && (
            <>
              for <AccountLink id={page.job.account} /> · {page.job.plan} ·
            </>
          )}
          <CopyText text={id} what="id" />
        </span>
      }
      actions={
        <>
          {connection && <Stream connection={connection} />}
          <LiveNote at={query.dataUpdatedAt} isFailing={query.isError} />
        </>
      }
    >
      {isMissing ? (
        <Empty title="There is no such job.">
          <p>
            It never was, or it is older than jobs are kept. <Link to="/jobs">Search the jobs</Link>.
          </p>
        </Empty>
      ) : (
        <Loaded query={query} what="the job">
          {(loaded) => <Body page={loaded} />}
        </Loaded>
      )}
    </Page>
  );
}

const STREAM_WORDS = {
  live: "Live",
  polling: "Asked every 3 s",
  lost: "Connection lost; the job goes on",
} as const;

function Stream({ connection }: { connection: keyof typeof STREAM_WORDS }) {
  return (
    <span className={styles.stream} data-connection={connection}>
      <i />
      {STREAM_WORDS[connection]}
    </span>
  );
}

function Body({ page }: { page: JobPage }) {
  const { job } = page;
  const hasResult = job.result !== null && job.result !== undefined;
  const hasPartial = job.partial !== null && job.partial !== undefined;
  return (
    <div className={styles.body}>
      <State page={page} />
      <div className={styles.columns}>
        <div className={styles.main}>
          <Part title="Time line" what="the time line">
            <Timeline page={page} />
          </Part>
          {page.attempts.length > 0 && (
            <Part title="Attempts" what="the attempts">
              <Attempts page={page} />
            </Part>
          )}
          {page.steps.length > 0 && (
            <Part title="Steps" what="the steps">
              <Steps page={page} />
            </Part>
          )}
          {(hasResult || hasPartial || page.files.some((file) => file.role === "result")) && (
            <Part title={hasResult || !hasPartial ? "Result" : "Result so far"} what="the result">
              <Preview files={page.files.filter((file) => file.role === "result")} />
              {hasResult && <JsonView of={job} field="result" label="result" />}
              {!hasResult && hasPartial && <JsonView of={job} field="partial" label="partial result" />}
            </Part>
          )}
          {page.traceback !== null && (
            <Part
              title="Traceback"
              what="the traceback"
              aside={<CopyText text={page.traceback} shown="" what="traceback" />}
            >
              <pre className={styles.traceback} tabIndex={0} role="region" aria-label="Text of the traceback">
                {page.traceback}
              </pre>
            </Part>
          )}
          <Part title={`Recent runs of ${job.tool}`} what="the recent runs">
            <RecentRuns page={page} />
          </Part>
        </div>
        <div className={styles.side}>
          <Part title="About it" what="the facts">
            <Facts page={page} />
          </Part>
          <Part title="Credits" what="the ledger" aside={<AccountLink id={job.account} />}>
            <Ledger page={page} />
          </Part>
          {(job.locked_by !== null || job.lock_expires_at !== null) && (
            <Part title="Worker and lease" what="the lease">
              <Lease page={page} />
            </Part>
          )}
          {(job.provider_ref !== null || job.callbacks > 0) && (
            <Part title="Provider" what="the provider's calls">
              <dl className={styles.facts}>
                <Fact name="Reference">
                  {job.provider_ref && <CopyText text={job.provider_ref} what="reference" />}
                </Fact>
                <Fact name="Cost">{job.provider_cost !== null && formatDecimal(job.provider_cost)}</Fact>
                <Fact name="Calls back">{job.callbacks}</Fact>
              </dl>
              <Callbacks page={page} />
            </Part>
          )}
          {page.files.length > 0 && (
            <Part title="Files" what="the files">
              <Files page={page} />
            </Part>
          )}
        </div>
      </div>
      {job.resume_data !== null && job.resume_data !== undefined && (
        <details className={`panel ${styles.folded}`}>
          <summary>Checkpoint {job.checkpoint}, data</summary>
          <JsonView of={job} field="resume_data" label="checkpoint data" />
        </details>
      )}
      <details className={`panel ${styles.folded}`}>
        <summary>Payload</summary>
        <JsonView of={job} field="payload" label="payload" />
      </details>
    </div>
  );
}

interface PartProps {
  title: string;
  what: string;
  aside?: ReactNode;
  children: ReactNode;
}

function Part({ title, what, aside, children }: PartProps) {
  return (
    <section className={`panel ${styles.part}`} aria-label={title}>
      <div className={styles.partHead}>
        <h2>{title}</h2>
        {aside}
      </div>
      <Guarded what={what}>{children}</Guarded>
    </section>
  );
}

function State({ page }: { page: JobPage }) {
  const { job } = page;
  const look = lookOf(job.status);
  // The words hold times: they are made anew each second, and drawn only when they change.
  const told = JSON.parse(useNow((now) => JSON.stringify(stateWords(page, now)))) as ReturnType<typeof stateWords>;
  return (
    <section className={`panel ${styles.state}`} aria-label="State" data-trouble={told.isTrouble || undefined}>
      <div className={styles.stateWords}>
        <div className={styles.headline} data-hue={look.hue}>
          <Icon name={look.icon} size={20} />
          <h2>{told.headline}</h2>
        </div>
        <ul>
          {told.why.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
        {job.status === "running" && (
          <progress
            className={styles.progress}
            max={100}
            value={job.progress > 0 ? job.progress : undefined}
            aria-label="Progress"
          />
        )}
      </div>
      <div className={styles.acts}>
        {page.acts.map((act) => (
          <Act key={act} act={act} page={page} />
        ))}
        {page.trace_url && /^https?:\/\//.test(page.trace_url) && (
          <a className="button" href={page.trace_url} target="_blank" rel="noreferrer noopener">
            <Icon name="link" /> Trace
          </a>
        )}
      </div>
    </section>
  );
}

function Act({ act, page: { job } }: { act: JobAct; page: JobPage }) {
  const navigate = useNavigate();
  const words = actWords(act, job);
  const path = { job_id: job.id };

  async function run(reason: string): Promise<string> {
    switch (act) {
      case "cancel": {
        const ended = await api.post("/api/jobs/{job_id}/cancel", { reason: reason || null }, { path });
        return ended.changed ? `Cancelled. ${formatCredits(ended.refunded)} returned.` : "It had ended before.";
      }
      case "requeue": {
        const made = await api.post("/api/admin/dead/{job_id}/requeue", undefined, { path });
        void navigate({ to: "/jobs/$job", params: { job: made.job_id } });
        return "It runs again as this job.";
      }
      case "discard":
        await api.post("/api/admin/dead/{job_id}/discard", undefined, { path });
        return "It left the dead letters.";
      case "recover": {
        const done = await api.post("/api/system/recover/{job_id}", undefined, { path });
        return done.act === "nothing" ? "Nothing was to recover: its lease still holds." : `Recovered: ${done.act}.`;
      }
      case "refund":
        await api.post("/api/admin/jobs/{job_id}/refund", { reason, amount: null, share: null }, { path });
        return "The credits were returned.";
    }
  }

  return (
    <ActButton
      label={words.button}
      title={words.title}
      confirm={words.confirm}
      money={words.money}
      reason={words.reason}
      isDangerous={words.isDangerous}
      refresh={["jobs", "overview", "dead"]}
      run={run}
    >
      <p>{words.after}</p>
    </ActButton>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === null || children === undefined || children === false || children === "") return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Facts({ page: { job } }: { page: JobPage }) {
  const jobs = (name: string, value: string | null) =>
    value && (
      <Link to="/jobs" search={{ search: searchText({ [name]: value }) }}>
        {value}
      </Link>
    );
  return (
    <dl className={styles.facts}>
      <Fact name="Tool">
        <Link to="/tools/$tool" params={{ tool: job.tool }}>
          {job.tool}
        </Link>
      </Fact>
      <Fact name="Pool">{jobs("pool", job.pool)}</Fact>
      <Fact name="Plan">
        {job.plan}, priority {job.priority}
        {job.is_first && ", the account's first job"}
      </Fact>
      <Fact name="Submitted">
        <TimeAgo at={job.created_at} />
      </Fact>
      <Fact name="Waited">
        <Took page={job} part="waited" />
      </Fact>
      <Fact name="Ran">{job.started_at && <Took page={job} part="ran" />}</Fact>
      <Fact name="Ended">{job.finished_at && <TimeAgo at={job.finished_at} />}</Fact>
      <Fact name="Failed runs">
        {job.attempts} of {job.max_attempts} at most
        {job.recoveries > 0 && `, ${job.recoveries} recovered`}
      </Fact>
      <Fact name="Batch">
        {job.batch && (
          <Link to="/batches/$batch" params={{ batch: job.batch }} className="mono">
            {job.batch}
          </Link>
        )}
      </Fact>
      <Fact name="Session">{jobs("session", job.session)}</Fact>
      <Fact name="Correlation id">{jobs("correlation", job.correlation_id)}</Fact>
      <Fact name="API key">{jobs("key", job.submitted_by)}</Fact>
      <Fact name="Requeue of">{job.requeue_of && <JobLink id={job.requeue_of} />}</Fact>
    </dl>
  );
}

function Took({ page, part }: { page: JobPage["job"]; part: "waited" | "ran" }) {
  return useNow((now) => formatDuration(timesOf(page, now)[part] ?? 0));
}

function Lease({ page: { job } }: { page: JobPage }) {
  return (
    <dl className={styles.facts}>
      <Fact name="Worker">{job.locked_by && <Link to="/workers">{job.locked_by}</Link>}</Fact>
      <Fact name="Epoch">{job.epoch}</Fact>
      <Fact name="Since">{job.locked_at && <TimeAgo at={job.locked_at} />}</Fact>
      <Fact name="Last heartbeat">{job.last_heartbeat_at && <TimeAgo at={job.last_heartbeat_at} />}</Fact>
      <Fact name="Runs out">{job.lock_expires_at && <TimeAgo at={job.lock_expires_at} />}</Fact>
      <Fact name="Deadline">{job.deadline_at && <TimeAgo at={job.deadline_at} />}</Fact>
    </dl>
  );
}
