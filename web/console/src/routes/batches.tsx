import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { BatchBar, CancelBatch, ResumeBatch } from "../components/BatchParts";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { AccountLink } from "../components/JobLink";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { SearchField } from "../components/SearchField";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import type { Schemas } from "../services/api";
import { formatCount, shortId } from "../services/format";
import { batchesQuery } from "../services/lists";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/batches")({ component: Batches });

type Batch = Schemas["BatchView"];

function Batches() {
  const { account, cursor } = Route.useSearch();
  const batches = useLive(batchesQuery({ account, cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Batches"
      lead="Jobs that were submitted together, and how far each batch is."
      actions={<LiveNote at={batches.dataUpdatedAt} isFailing={batches.isError} />}
    >
      <div className={styles.filters}>
        <SearchField
          label="Account"
          value={account}
          onSearch={(text) => void navigate({ to: "/batches", search: { account: text } })}
        />
      </div>
      <Loaded query={batches} what="the batches">
        {({ items, next }) => (
          <>
            <DataTable
              label="Batches"
              columns={COLUMNS}
              rows={items}
              rowKey={(batch) => batch.id}
              onOpen={(batch) => void navigate({ to: "/batches/$batch", params: { batch: batch.id } })}
              empty={
                account === undefined ? (
                  <Empty title="No batches yet.">
                    <p>
                      <code>POST /api/batches</code> submits many jobs in one call; all are charged, or none is.
                    </p>
                  </Empty>
                ) : (
                  <Empty title={`${account} has no batches.`}>
                    <Link to="/batches">Show those of all accounts</Link>
                  </Empty>
                )
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "batch", "batches"]}
              onGo={(to) => void navigate({ to: "/batches", search: { account, cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const COLUMNS: Column<Batch>[] = [
  {
    id: "id",
    header: "Batch",
    onPhone: "title",
    cell: (batch) => (
      <Link to="/batches/$batch" params={{ batch: batch.id }} className="mono" title={batch.id}>
        {shortId(batch.id)}
      </Link>
    ),
  },
  { id: "account", header: "Account", cell: (batch) => <AccountLink id={batch.account} /> },
  { id: "jobs", header: "Jobs", align: "right", cell: (batch) => formatCount(batch.total) },
  { id: "ended", header: "Ended", align: "right", cell: (batch) => `${Math.floor(batch.progress)} %` },
  { id: "bar", header: "By status", width: "grow", cell: (batch) => <BatchBar batch={batch} withWords={false} /> },
  { id: "created", header: "Submitted", align: "right", cell: (batch) => <TimeAgo at={batch.created_at} /> },
  {
    id: "acts",
    header: "",
    align: "right",
    cell: (batch) => (
      <>
        <ResumeBatch batch={batch} />
        <CancelBatch batch={batch} />
      </>
    ),
  },
];
