import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { BatchBar, CancelBatch, ResumeBatch } from "../components/BatchParts";
import { CopyText } from "../components/CopyText";
import { Empty } from "../components/Empty";
import { AccountLink } from "../components/JobLink";
import { JobRows } from "../components/JobRows";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { Stat, StatRow } from "../components/Stat";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import { formatCount, shortId } from "../services/format";
import { batchJobsQuery, batchQuery } from "../services/lists";
import { searchText } from "../services/search-text";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/batches/$batch")({ component: Batch });

function Batch() {
  const { batch: id } = Route.useParams();
  const { cursor } = Route.useSearch();
  const query = useLive(batchQuery(id));
  const jobs = useLive(batchJobsQuery({ batch: id, cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title={`Batch ${shortId(id)}`}
      lead={<CopyText text={id} what="id" />}
      actions={
        <>
          <LiveNote at={query.dataUpdatedAt} isFailing={query.isError} />
          {query.data && <ResumeBatch batch={query.data} />}
          {query.data && <CancelBatch batch={query.data} />}
        </>
      }
    >
      <Loaded query={query} what="this batch">
        {(batch) => (
          <>
            <StatRow>
              <Stat label="Jobs" value={formatCount(batch.total)} note={`${Math.floor(batch.progress)} % have ended`} />
              {["completed", "running", "queued", "failed"].map((status) => (
                <Stat
                  key={status}
                  label={status.charAt(0).toUpperCase() + status.slice(1)}
                  hue={
                    status === "completed" ? "done" : status === "queued" ? "waiting" : (status as "running" | "failed")
                  }
                  value={
                    <Link to="/jobs" search={{ search: searchText({ batch: id, state: status }) }}>
                      {formatCount(batch.by_status[status] ?? 0)}
                    </Link>
                  }
                />
              ))}
              <Stat
                label="Account"
                value={<AccountLink id={batch.account} />}
                note={<TimeAgo at={batch.created_at} />}
              />
            </StatRow>
            <BatchBar batch={batch} withWords />
          </>
        )}
      </Loaded>
      <section className={styles.section}>
        <h2>Jobs of this batch</h2>
        <Loaded query={jobs} what="its jobs">
          {({ items, next }) => (
            <>
              <JobRows
                label="Jobs of this batch"
                credits="kept"
                jobs={items}
                empty={<Empty title="No jobs are left of this batch." />}
              />
              <Pager
                cursor={cursor}
                next={next}
                shown={[items.length, "job"]}
                onGo={(to) => void navigate({ to: "/batches/$batch", params: { batch: id }, search: { cursor: to } })}
              />
            </>
          )}
        </Loaded>
      </section>
    </Page>
  );
}
