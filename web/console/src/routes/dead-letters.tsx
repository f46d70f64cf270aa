import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { BulkActButton } from "../components/BulkActButton";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { JobRows } from "../components/JobRows";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { Stat, StatRow } from "../components/Stat";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import { formatCapped, formatCount } from "../services/format";
import { deadGroupsQuery, foundJobsQuery } from "../services/lists";
import { deadGroupSearch } from "../services/search-text";
import type { DeadGroup } from "../services/shapes";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/dead-letters")({ component: DeadLetters });

function DeadLetters() {
  const { group, cursor } = Route.useSearch();
  return group === undefined ? <Groups /> : <Group search={group} cursor={cursor} />;
}

const ALL = "dead:yes";

function Groups() {
  const groups = useLive(deadGroupsQuery);
  const navigate = useNavigate();
  return (
    <Page
      title="Dead letters"
      lead="What broke, and how often. Jobs that failed for good and that nobody has dealt with yet."
      actions={<LiveNote at={groups.dataUpdatedAt} isFailing={groups.isError} />}
    >
      <Loaded query={groups} what="the dead letters">
        {({ items, is_whole: isWhole }) =>
          items.length === 0 ? (
            <Empty title="No dead letters.">
              <p>
                A job whose last attempt failed stays here until somebody requeues or discards it. One whose error was
                final, so that a retry could not help, is only in{" "}
                <Link to="/jobs" search={{ search: "state:failed" }}>
                  Jobs
                </Link>
                .
              </p>
            </Empty>
          ) : (
            <>
              <Sums groups={items} isWhole={isWhole} />
              <DataTable
                label="Dead letters by error"
                columns={COLUMNS}
                rows={items}
                rowKey={(one) => `${one.tool} ${one.error}`}
                onOpen={(one) => void navigate({ to: "/dead-letters", search: { group: deadGroupSearch(one) } })}
              />
              {!isWhole && <p className="muted">Grouped from the newest 10,000. Older ones are in the list of all.</p>}
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

function Sums({ groups, isWhole }: { groups: DeadGroup[]; isWhole: boolean }) {
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const credits = groups.reduce((sum, group) => sum + group.credits, 0);
  return (
    <div className={styles.withActs}>
      <StatRow>
        <Stat
          label="Dead letters"
          hue="failed"
          value={
            <Link to="/dead-letters" search={{ group: ALL }}>
              {formatCapped(count, isWhole)}
            </Link>
          }
        />
        <Stat label="Different errors" value={formatCount(groups.length)} />
        <Stat label="Credits to run all again" value={formatCapped(credits, isWhole)} />
      </StatRow>
      <div className={styles.acts}>
        <BulkActButton act="requeue" search={ALL} label="Requeue all" />
        <BulkActButton act="discard" search={ALL} label="Discard all" />
      </div>
    </div>
  );
}

const COLUMNS: Column<DeadGroup>[] = [
  {
    id: "error",
    header: "Error",
    width: "grow",
    onPhone: "title",
    cell: (group) => (
      <Link to="/dead-letters" search={{ group: deadGroupSearch(group) }} title={group.error}>
        {group.error || "no error text"}
      </Link>
    ),
  },
  { id: "tool", header: "Tool", cell: (group) => group.tool, sortBy: (group) => group.tool },
  {
    id: "count",
    header: "Jobs",
    align: "right",
    cell: (group) => (
      <Link to="/dead-letters" search={{ group: deadGroupSearch(group) }}>
        {formatCount(group.count)}
      </Link>
    ),
    sortBy: (group) => group.count,
  },
  {
    id: "credits",
    header: "Credits",
    align: "right",
    cell: (group) => <Money credits={group.credits} isBare />,
    sortBy: (group) => group.credits,
  },
  {
    id: "first",
    header: "First",
    align: "right",
    cell: (group) => <TimeAgo at={group.first_at} />,
    sortBy: (group) => group.first_at,
  },
  {
    id: "last",
    header: "Last",
    align: "right",
    cell: (group) => <TimeAgo at={group.last_at} />,
    sortBy: (group) => group.last_at,
  },
  {
    id: "acts",
    header: "",
    align: "right",
    cell: (group) => (
      <>
        <BulkActButton
          act="requeue"
          search={deadGroupSearch(group)}
          spoken={`Requeue ${group.count} of ${group.tool}`}
        />
        <BulkActButton
          act="discard"
          search={deadGroupSearch(group)}
          spoken={`Discard ${group.count} of ${group.tool}`}
        />
      </>
    ),
  },
];

function Group({ search, cursor }: { search: string; cursor: string | undefined }) {
  const found = useLive(foundJobsQuery({ search, cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Dead letters of one kind"
      lead={
        <>
          <Link to="/dead-letters">All kinds</Link> · <code>{search}</code>
        </>
      }
      actions={
        <>
          <LiveNote at={found.dataUpdatedAt} isFailing={found.isError} />
          <Link className="button" to="/jobs" search={{ search }}>
            Open in Jobs
          </Link>
          <BulkActButton act="requeue" search={search} label="Requeue these" />
          <BulkActButton act="discard" search={search} label="Discard these" />
        </>
      }
    >
      <Loaded query={found} what="these dead letters">
        {({ items, next }) => (
          <>
            <JobRows
              label="Dead letters"
              credits="to run again"
              jobs={items}
              empty={
                <Empty title="None of these is left.">
                  <Link to="/dead-letters">Back to all dead letters</Link>
                </Empty>
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "job"]}
              onGo={(to) => void navigate({ to: "/dead-letters", search: { group: search, cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}
