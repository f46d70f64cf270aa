import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { ActButton } from "../components/ActButton";
import { Bar } from "../components/Bar";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { JobLink } from "../components/JobLink";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { Stat, StatRow } from "../components/Stat";
import { StateBadge } from "../components/StateBadge";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import { api } from "../services/api";
import { formatCount, plural } from "../services/format";
import { bulkActQuery, bulkActsQuery } from "../services/lists";
import type { BulkAct } from "../services/shapes";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/bulk-acts")({ component: BulkActs });

function BulkActs() {
  const { act, cursor } = Route.useSearch();
  return act === undefined ? <All cursor={cursor} /> : <One id={act} />;
}

function All({ cursor }: { cursor: string | undefined }) {
  const acts = useLive(bulkActsQuery({ cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Bulk acts"
      lead="Acts on all jobs that a search found: how far they are, and what became of each job."
      actions={<LiveNote at={acts.dataUpdatedAt} isFailing={acts.isError} />}
    >
      <Loaded query={acts} what="the bulk acts">
        {({ items, next }) => (
          <>
            <DataTable
              label="Bulk acts"
              columns={COLUMNS}
              rows={items}
              rowKey={(act) => act.id}
              onOpen={(act) => void navigate({ to: "/bulk-acts", search: { act: act.id } })}
              empty={
                <Empty title="No bulk acts yet.">
                  <p>
                    Search in <Link to="/jobs">Jobs</Link> or open <Link to="/dead-letters">Dead letters</Link>, and act
                    on all that match.
                  </p>
                </Empty>
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "bulk act"]}
              onGo={(to) => void navigate({ to: "/bulk-acts", search: { cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const word = (act: BulkAct): string => act.act.charAt(0).toUpperCase() + act.act.slice(1);

const COLUMNS: Column<BulkAct>[] = [
  {
    id: "act",
    header: "Act",
    onPhone: "title",
    cell: (act) => (
      <Link to="/bulk-acts" search={{ act: act.id }}>
        {word(act)} {plural(act.total, "job")}
      </Link>
    ),
  },
  { id: "state", header: "State", cell: (act) => <StateBadge state={act.state} /> },
  { id: "progress", header: "Progress", cell: (act) => <Progress act={act} /> },
  {
    id: "search",
    header: "Search",
    width: "grow",
    cell: (act) => <code title={act.search}>{act.search || "all jobs"}</code>,
  },
  { id: "by", header: "By", cell: (act) => act.by },
  { id: "credits", header: "Cost", align: "right", cell: (act) => <Money credits={act.credits} isBare /> },
  { id: "started", header: "Started", align: "right", cell: (act) => <TimeAgo at={act.started_at} /> },
  { id: "acts", header: "", align: "right", cell: (act) => <Stop act={act} /> },
];

function Progress({ act }: { act: BulkAct }) {
  return (
    <span className={styles.bar}>
      <Bar
        label={`${word(act)}`}
        parts={[
          { label: "done", value: act.done, hue: "done" },
          { label: "failed", value: act.failed, hue: "failed" },
        ]}
        total={act.total}
      />
    </span>
  );
}

function Stop({ act }: { act: BulkAct }) {
  if (act.state !== "running") return null;
  return (
    <ActButton
      label="Stop"
      spoken={`Stop ${act.act} of ${plural(act.total, "job")}`}
      title={`Stop this ${act.act}?`}
      confirm="Stop it"
      isDangerous
      refresh={["bulk-acts"]}
      run={async () => {
        await api.post("/api/admin/bulk-acts/{bulk_id}/stop", undefined, { path: { bulk_id: act.id } });
        return `The ${act.act} is stopped. What was done stays done.`;
      }}
    >
      <p>
        {formatCount(act.done)} of {plural(act.total, "job")} are done; they stay as they are. The rest is left alone.
      </p>
    </ActButton>
  );
}

function One({ id }: { id: string }) {
  const query = useLive(bulkActQuery(id), 2_000);
  return (
    <Page
      title={query.data ? `${word(query.data)} of ${plural(query.data.total, "job")}` : "Bulk act"}
      lead={<Link to="/bulk-acts">All bulk acts</Link>}
      actions={
        <>
          <LiveNote at={query.dataUpdatedAt} isFailing={query.isError} />
          {query.data && <Stop act={query.data} />}
        </>
      }
    >
      <Loaded query={query} what="this bulk act">
        {(act) => {
          const gone = act.total - act.done - act.failed;
          return (
            <>
              <StatRow>
                <Stat label="State" value={<StateBadge state={act.state} />} />
                <Stat
                  label="Done"
                  hue="done"
                  value={formatCount(act.done)}
                  note={
                    act.state === "done" && gone > 0
                      ? `${formatCount(gone)} did not match any more`
                      : `of ${plural(act.total, "job")}`
                  }
                />
                <Stat label="Failed" hue={act.failed > 0 ? "failed" : "waiting"} value={formatCount(act.failed)} />
                <Stat label="Cost of these jobs" value={<Money credits={act.credits} />} />
                <Stat
                  label={act.ended_at ? "Ended" : "Started"}
                  value={<TimeAgo at={act.ended_at ?? act.started_at} />}
                  note={`by ${act.by}`}
                />
              </StatRow>
              <Bar
                label="Progress"
                parts={[
                  { label: "done", value: act.done, hue: "done" },
                  { label: "failed", value: act.failed, hue: "failed" },
                ]}
                total={act.total}
                withWords
              />
              <p>
                <strong>Reason:</strong> {act.reason}
                <br />
                <strong>Search:</strong>{" "}
                <Link to="/jobs" search={{ search: act.search }}>
                  <code>{act.search || "all jobs"}</code>
                </Link>
              </p>
              {act.failures.length > 0 && (
                <section className={styles.section}>
                  <h2>
                    What failed
                    {act.failed > act.failures.length &&
                      ` (the first ${act.failures.length} of ${formatCount(act.failed)})`}
                  </h2>
                  <DataTable
                    label="Jobs that failed"
                    columns={FAILURES}
                    rows={act.failures}
                    rowKey={(failure) => failure.job_id}
                  />
                </section>
              )}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

const FAILURES: Column<BulkAct["failures"][number]>[] = [
  { id: "job", header: "Job", onPhone: "title", cell: (failure) => <JobLink id={failure.job_id} /> },
  { id: "code", header: "Code", cell: (failure) => <code>{failure.code}</code> },
  { id: "text", header: "Why", width: "grow", cell: (failure) => <span title={failure.text}>{failure.text}</span> },
];
