import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { BulkBar } from "../components/BulkBar";
import { Button } from "../components/Button";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { ErrorPanel } from "../components/ErrorPanel";
import { FirstRun } from "../components/FirstRun";
import { LiveNote } from "../components/LiveNote";
import { Aged } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { SearchBox } from "../components/SearchBox";
import { StateBadge } from "../components/StateBadge";
import { TimeAgo } from "../components/TimeAgo";
import { useNow } from "../hooks/use-now";
import { useLive } from "../hooks/useLive";
import { useMayAct } from "../hooks/useSignedIn";
import { api, Problem } from "../services/api";
import { formatCapped, formatCount, formatDuration, plural, shortId } from "../services/format";
import { type Job, type JobRow, mergeRows, timesOf } from "../services/job-rows";
import { qualifierOf, withQualifier } from "../services/job-search";
import { jobCountQuery } from "../services/lists";
import { isJobId, jobIdOf } from "../services/palette";
import { JOBS_ON_A_PAGE, jobsPageQuery } from "../services/queries";
import styles from "./jobs.module.css";

export const Route = createLazyRoute("/jobs")({ component: Jobs });

/** Which ones? */
function Jobs() {
  const { search = "" } = Route.useSearch();
  const navigate = useNavigate();

  function searchFor(text: string) {
    if (isJobId(text)) void navigate({ to: "/jobs/$job", params: { job: jobIdOf(text) } });
    else void navigate({ to: "/jobs", search: { search: text || undefined } });
  }

  return <List key={search} search={search} onSearch={searchFor} />;
}

function List({ search, onSearch }: { search: string; onSearch: (text: string) => void }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const mayAct = useMayAct();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);

  const listKey = ["jobs", "list", search];
  const list = useInfiniteQuery({
    queryKey: listKey,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      api.get("/api/admin/jobs", { query: { search, cursor: pageParam, limit: JOBS_ON_A_PAGE }, signal }),
    getNextPageParam: (last) => last.next ?? undefined,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const isRefused = list.error instanceof Problem && list.error.status === 422;
  const count = useQuery({ ...jobCountQuery(search), enabled: list.isSuccess }).data;

  // The first page and the one loaded last are asked again; the list itself keeps its order.
  const lastCursor = list.data?.pageParams.at(-1) as string | undefined;
  const head = useLive({
    ...jobsPageQuery(search, undefined),
    enabled: list.isSuccess,
    initialData: list.data?.pages[0], // what was just read is not asked for again at once
    initialDataUpdatedAt: list.dataUpdatedAt,
  });
  const tail = useLive({ ...jobsPageQuery(search, lastCursor), enabled: list.isSuccess && lastCursor !== undefined });
  const shown = useMemo(() => list.data?.pages.flatMap((page) => page.items) ?? [], [list.data]);
  const { rows, fresh } = useMemo(() => {
    const polls = [head.data, lastCursor === undefined ? undefined : tail.data].flatMap((page) =>
      page ? [page.items] : [],
    );
    return mergeRows(shown, polls);
  }, [shown, head.data, tail.data, lastCursor]);

  function showFresh() {
    if (head.data) queries.setQueryData(listKey, { pages: [head.data], pageParams: [undefined] });
    window.scrollTo({ top: 0 });
  }

  const last = list.data?.pages.at(-1);
  const chosenIds = rows.map((row) => row.job.id).filter((id) => chosen.has(id));
  const columns = useMemo(() => COLUMNS, []);
  const isFirstRun = list.isSuccess && search === "" && shown.length === 0 && fresh === 0;

  return (
    <Page
      title="Jobs"
      lead={count ? `${formatCapped(count.count, count.is_exact)} ${search ? "match" : "in all"}` : " "}
      actions={<LiveNote at={Math.max(list.dataUpdatedAt, head.dataUpdatedAt)} isFailing={head.isError} />}
    >
      <SearchBox text={search} error={isRefused ? list.error : null} onSearch={onSearch} />
      <Quick search={search} />
      {list.error !== null && !isRefused && (
        <ErrorPanel
          error={list.error}
          what="the jobs"
          hasOld={shown.length > 0}
          isRetrying={list.isFetching}
          onRetry={() => void list.refetch()}
        />
      )}
      {head.isError && list.isSuccess && (
        <ErrorPanel error={head.error} what="the jobs" hasOld onRetry={() => void head.refetch()} />
      )}
      <div role="status" className={styles.fresh}>
        {fresh > 0 && (
          <button type="button" className="button" onClick={showFresh}>
            {fresh >= JOBS_ON_A_PAGE ? `${JOBS_ON_A_PAGE}+` : formatCount(fresh)} new
          </button>
        )}
      </div>
      {list.isPending && !list.error && <Loading />}
      {isFirstRun && <FirstRun />}
      {list.isSuccess && !isFirstRun && (
        <Aged isOld={head.isError || list.error !== null}>
          <DataTable
            label="Jobs"
            columns={columns}
            rows={rows}
            rowKey={(row) => row.job.id}
            onOpen={(row) => void navigate({ to: "/jobs/$job", params: { job: row.job.id } })}
            selected={mayAct ? chosen : undefined}
            onSelect={
              mayAct
                ? (keys) => {
                    setChosen(keys);
                    setAll(false);
                  }
                : undefined
            }
            empty={
              <Empty title="No job matches.">
                <Link to="/jobs" className="button">
                  Clear the search
                </Link>
              </Empty>
            }
          />
        </Aged>
      )}
      {last && (last.next !== null || !last.is_whole) && (
        <div className={styles.more}>
          {!last.is_whole && (
            <p className="muted">
              Looked at {plural(last.looked_at, "job")}
              {last.back_to && (
                <>
                  , back to <TimeAgo at={last.back_to} />
                </>
              )}
              . {last.next === null && "Older ones were not looked at: add since: or until:, or a tool or account."}
            </p>
          )}
          {last.next !== null && (
            <Button isOff={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
              {list.isFetchingNextPage ? "Searching…" : last.is_whole ? "More jobs" : "Go on searching"}
            </Button>
          )}
        </div>
      )}
      {mayAct && (
        <BulkBar
          chosen={chosenIds}
          loaded={rows.length}
          hasMore={last?.next != null}
          search={search}
          isAll={isAll}
          onAll={setAll}
          onClear={() => {
            setChosen(new Set());
            setAll(false);
          }}
        />
      )}
    </Page>
  );
}

const QUICK: { label: string; name: string; value: string }[] = [
  { label: "Waiting", name: "state", value: "queued" },
  { label: "Running", name: "state", value: "running,starting" },
  { label: "Failed", name: "state", value: "failed" },
  { label: "Dead letters", name: "dead", value: "yes" },
  { label: "Stuck", name: "stuck", value: "yes" },
  { label: "Last hour", name: "since", value: "1h" },
  { label: "Last day", name: "since", value: "24h" },
];

/** The filters that are asked for most, as links: each adds itself to the search, or takes itself away. */
function Quick({ search }: { search: string }) {
  return (
    <nav className={styles.quick} aria-label="Filters">
      {QUICK.map((one) => {
        const isOn = qualifierOf(search, one.name) === one.value;
        return (
          <Link
            key={one.label}
            to="/jobs"
            search={{ search: withQualifier(search, one.name, isOn ? null : one.value) || undefined }}
            className={styles.chip}
            aria-current={isOn ? "true" : undefined}
            data-on={isOn || undefined}
          >
            {one.label}
          </Link>
        );
      })}
    </nav>
  );
}

function Loading() {
  return (
    <div className={styles.loading} aria-busy="true">
      <span className="spoken">Loading jobs…</span>
      {Array.from({ length: 12 }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all are alike.
        <i key={index} />
      ))}
    </div>
  );
}

const COLUMNS: Column<JobRow>[] = [
  { id: "state", header: "State", width: "150px", cell: (row) => <State row={row} /> },
  {
    id: "tool",
    header: "Job",
    onPhone: "title",
    cell: ({ job }) => (
      <Link to="/jobs/$job" params={{ job: job.id }} className={styles.tool} title={job.id}>
        {job.tool} <code>{shortId(job.id)}</code>
      </Link>
    ),
  },
  {
    id: "account",
    header: "Account",
    cell: ({ job }) => (
      <Link to="/accounts/$account" params={{ account: job.account }} className={styles.account}>
        {job.account} <span className="muted">{job.plan}</span>
      </Link>
    ),
  },
  {
    id: "waited",
    header: "Waited",
    align: "right",
    onPhone: "hidden",
    cell: ({ job }) => <Took job={job} part="waited" />,
  },
  { id: "ran", header: "Ran", align: "right", onPhone: "hidden", cell: ({ job }) => <Took job={job} part="ran" /> },
  {
    id: "cost",
    header: "Credits",
    align: "right",
    cell: ({ job }) => <Money credits={job.charged - job.refunded} isBare />,
  },
  { id: "created", header: "Submitted", align: "right", cell: ({ job }) => <TimeAgo at={job.created_at} /> },
  {
    id: "error",
    header: "Error",
    width: "grow",
    cell: ({ job }) =>
      job.error && (
        <span className={styles.error} title={job.error}>
          {job.error}
        </span>
      ),
  },
];

function State({ row: { job, isGone } }: { row: JobRow }) {
  const note = isGone
    ? "changed"
    : job.status === "running" && job.progress > 0
      ? `${job.progress} %`
      : job.status === "queued" && job.position !== null
        ? `#${job.position}`
        : job.is_dead_letter
          ? "dead"
          : undefined;
  return (
    <span
      className={isGone ? styles.gone : undefined}
      title={isGone ? "It has changed and no longer matches." : undefined}
    >
      <StateBadge state={job.status} note={note} />
    </span>
  );
}

function Took({ job, part }: { job: Job; part: "waited" | "ran" }) {
  return useNow((now) => {
    const value = timesOf(job, now)[part];
    return value === null ? "–" : formatDuration(value);
  });
}
