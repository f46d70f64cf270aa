import { createLazyRoute, useNavigate } from "@tanstack/react-router";
import { Bar, type BarPart } from "../components/Bar";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { Icon } from "../components/Icon";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { Stat, StatRow } from "../components/Stat";
import { StateBadge } from "../components/StateBadge";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import type { Schemas } from "../services/api";
import { formatCount, formatDuration } from "../services/format";
import { workersQuery } from "../services/lists";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/workers")({ component: Workers });

type Worker = Schemas["WorkerView"];

function Workers() {
  const { cursor } = Route.useSearch();
  const workers = useLive(workersQuery({ cursor, limit: 100 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Workers"
      lead="Who works, who is silent, and what became of their runs."
      actions={<LiveNote at={workers.dataUpdatedAt} isFailing={workers.isError} />}
    >
      <Loaded query={workers} what="the workers">
        {({ items, next }) => (
          <>
            {items.length > 0 && <Sums workers={items} />}
            {items
              .filter((worker) => worker.problem !== null)
              .map((worker) => (
                <p key={worker.name} className={styles.problem}>
                  <Icon name="dead" size={14} /> <span className="mono">{worker.name}</span>: {worker.problem}
                </p>
              ))}
            <DataTable
              label="Workers"
              columns={COLUMNS}
              rows={items}
              rowKey={(worker) => worker.name}
              isMarked={(worker) => worker.state === "silent" || worker.stuck > 0 || worker.problem !== null}
              empty={
                <Empty title="No worker has come yet.">
                  <p>
                    Jobs wait until one does. Start one with <code>ficha worker</code>.
                  </p>
                </Empty>
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "worker"]}
              onGo={(to) => void navigate({ to: "/workers", search: { cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Sums({ workers }: { workers: Worker[] }) {
  const of = (state: Worker["state"]) => workers.filter((worker) => worker.state === state).length;
  const running = workers.reduce((sum, worker) => sum + worker.running, 0);
  const room = workers.reduce((sum, worker) => sum + (worker.state === "alive" ? (worker.concurrency ?? 0) : 0), 0);
  return (
    <StatRow>
      <Stat label="Alive" hue="done" value={formatCount(of("alive"))} />
      <Stat label="Silent" hue={of("silent") > 0 ? "failed" : "waiting"} value={formatCount(of("silent"))} />
      <Stat label="Running" hue="running" value={formatCount(running)} note={`room for ${formatCount(room)}`} />
      <Stat label="Stopped" value={formatCount(of("stopped"))} />
    </StatRow>
  );
}

/** What became of a worker's runs. */
function runParts(worker: Worker): BarPart[] {
  return [
    { label: "completed", value: worker.completed, hue: "done" },
    { label: "handed to a provider", value: worker.accepted, hue: "done", isStriped: true },
    { label: "running", value: worker.running, hue: "running" },
    { label: "retried", value: worker.retried, hue: "waiting" },
    { label: "returned", value: worker.returned, hue: "waiting" },
    { label: "cancelled", value: worker.cancelled, hue: "waiting", isStriped: true },
    { label: "recovered", value: worker.recovered, hue: "failed", isStriped: true },
    { label: "failed", value: worker.failed, hue: "failed" },
  ];
}

const COLUMNS: Column<Worker>[] = [
  {
    id: "name",
    header: "Worker",
    onPhone: "title",
    cell: (worker) => <span className="mono">{worker.name}</span>,
  },
  { id: "state", header: "State", cell: (worker) => <StateBadge state={worker.state ?? "unregistered"} /> },
  { id: "seen", header: "Seen", cell: (worker) => <TimeAgo at={worker.seen_at ?? worker.stopped_at} /> },
  {
    id: "host",
    header: "Host",
    cell: (worker) => (worker.host === null ? "–" : `${worker.host}${worker.pid === null ? "" : ` · ${worker.pid}`}`),
  },
  { id: "pools", header: "Pools", cell: (worker) => worker.pools?.join(", ") ?? "–" },
  {
    id: "running",
    header: "Running",
    align: "right",
    cell: (worker) => (
      <>
        {worker.stuck > 0 && (
          <>
            <StateBadge state="stuck" note={formatCount(worker.stuck)} />,{" "}
          </>
        )}
        {formatCount(worker.running)}
        {worker.concurrency !== null && ` of ${formatCount(worker.concurrency)}`}
      </>
    ),
  },
  {
    id: "runs",
    header: "Runs",
    width: "grow",
    cell: (worker) => <Bar label={`Runs of ${worker.name}`} parts={runParts(worker)} />,
  },
  { id: "claimed", header: "Begun", align: "right", cell: (worker) => formatCount(worker.claimed) },
  {
    id: "average",
    header: "Average",
    align: "right",
    cell: (worker) => (worker.average_duration_s === null ? "–" : formatDuration(worker.average_duration_s)),
  },
];
