import { createLazyRoute } from "@tanstack/react-router";
import { useState } from "react";
import { ActButton } from "../components/ActButton";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Cost, Money } from "../components/Money";
import { Page } from "../components/Page";
import { StateBadge } from "../components/StateBadge";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import { api, type Schemas } from "../services/api";
import { formatCount, formatDuration, plural } from "../services/format";
import { marginsQuery, providersQuery } from "../services/lists";
import { byTool, type ToolMargin } from "../services/margins";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/providers")({ component: Providers });

type Provider = Schemas["ProviderView"];

function Providers() {
  const providers = useLive(providersQuery);
  const margins = useLive(marginsQuery, 60_000);
  return (
    <Page
      title="Providers"
      lead="Who fails, who is slow, and what they take."
      actions={<LiveNote at={providers.dataUpdatedAt} isFailing={providers.isError} />}
    >
      <Loaded query={providers} what="the providers">
        {({ items }) => (
          <DataTable
            label="Providers"
            columns={COLUMNS}
            rows={items}
            rowKey={(provider) => provider.name}
            isMarked={(provider) => provider.breaker !== "closed"}
            empty={
              <Empty title="No providers are declared.">
                <p>An application declares one for each outside service that does its work.</p>
              </Empty>
            }
          />
        )}
      </Loaded>
      <section className={styles.section}>
        <div className={styles.sectionHead}>
          <h2>What they took, by tool, in the last 30 days</h2>
        </div>
        <Loaded query={margins} what="the costs">
          {({ items }) => (
            <DataTable
              label="Provider cost by tool"
              columns={MARGINS}
              rows={byTool(items)}
              rowKey={(line) => line.tool}
              empty={
                <Empty title="No costs are known yet.">
                  <p>A handler that reports what its provider took makes them known.</p>
                </Empty>
              }
            />
          )}
        </Loaded>
      </section>
    </Page>
  );
}

const COLUMNS: Column<Provider>[] = [
  { id: "name", header: "Provider", onPhone: "title", cell: (one) => one.name, sortBy: (one) => one.name },
  {
    id: "breaker",
    header: "Breaker",
    cell: (one) => <StateBadge state={`breaker ${one.breaker}`} />,
    sortBy: (one) => one.breaker,
  },
  {
    id: "failures",
    header: "Failures",
    cell: (one) =>
      one.failures === 0 && one.trips === 0
        ? "none"
        : `${formatCount(one.failures)} in a row${one.trips > 0 ? `, opened ${plural(one.trips, "time")}` : ""}`,
  },
  {
    id: "turns",
    header: "Out now",
    align: "right",
    cell: (one) =>
      one.at_once === null ? formatCount(one.turns) : `${formatCount(one.turns)} of ${formatCount(one.at_once)}`,
  },
  { id: "rate", header: "Rate", align: "right", cell: (one) => one.rate ?? "no limit" },
  {
    id: "wait",
    header: "Turn in",
    align: "right",
    cell: (one) => (one.wait_s === 0 ? "no wait" : formatDuration(one.wait_s)),
  },
  {
    id: "down",
    header: "Down",
    cell: (one) =>
      one.down_since === null ? (
        "–"
      ) : (
        <>
          <TimeAgo at={one.down_since} />
          {one.down_until !== null && (
            <>
              , probe <TimeAgo at={one.down_until} isDue />
            </>
          )}
        </>
      ),
  },
  {
    id: "error",
    header: "Last error",
    width: "grow",
    cell: (one) => <span title={one.error ?? undefined}>{one.error ?? "–"}</span>,
  },
  {
    id: "acts",
    header: "",
    align: "right",
    cell: (one) => <>{one.breaker === "closed" ? <Open provider={one} /> : <Reset provider={one} />}</>,
  },
];

function Open({ provider }: { provider: Provider }) {
  const [minutes, setMinutes] = useState("10");
  const number = Number(minutes);
  const isGood = minutes.trim() !== "" && number > 0 && Number.isFinite(number);
  return (
    <ActButton
      label="Open breaker"
      spoken={`Open breaker of ${provider.name}`}
      title={`Send nothing to ${provider.name} for a while?`}
      confirm={`Open for ${isGood ? formatDuration(number * 60) : "…"}`}
      reason="required"
      isDangerous
      problem={isGood ? undefined : "Say for how many minutes."}
      refresh={["providers", "overview"]}
      onOpen={() => setMinutes("10")}
      run={async (reason) => {
        const path = { provider: provider.name };
        await api.post("/api/admin/providers/{provider}/open", { seconds: number * 60, reason }, { path });
        return `The breaker of ${provider.name} is open.`;
      }}
    >
      <p>
        No request goes out. Jobs that need it wait or are refused. After that time one probe finds out whether it
        works.
      </p>
      <Field label="Minutes" isRequired>
        {(parts) => (
          <input
            {...parts}
            className="field"
            inputMode="decimal"
            value={minutes}
            onChange={(event) => setMinutes(event.target.value)}
          />
        )}
      </Field>
    </ActButton>
  );
}

function Reset({ provider }: { provider: Provider }) {
  return (
    <ActButton
      label="Reset"
      spoken={`Reset the breaker of ${provider.name}`}
      title={`Send requests to ${provider.name} again?`}
      confirm={`Close the breaker of ${provider.name}`}
      refresh={["providers", "overview"]}
      run={async () => {
        await api.post("/api/admin/providers/{provider}/reset", undefined, { path: { provider: provider.name } });
        return `The breaker of ${provider.name} is closed.`;
      }}
    >
      <p>All waiting requests may go out at once. If it still fails, the breaker opens again by itself.</p>
    </ActButton>
  );
}

const MARGINS: Column<ToolMargin>[] = [
  { id: "tool", header: "Tool", onPhone: "title", cell: (line) => line.tool, sortBy: (line) => line.tool },
  { id: "jobs", header: "Jobs", align: "right", cell: (line) => formatCount(line.jobs), sortBy: (line) => line.jobs },
  {
    id: "credits",
    header: "Credits earned",
    align: "right",
    cell: (line) => <Money credits={line.credits} isBare />,
    sortBy: (line) => line.credits,
  },
  {
    id: "cost",
    header: "Provider cost",
    align: "right",
    cell: (line) => <Cost amount={line.cost} />,
    sortBy: (line) => line.cost,
  },
  {
    id: "each",
    header: "Cost of a job",
    align: "right",
    cell: (line) => <Cost amount={line.jobs === 0 ? null : line.cost / line.jobs} />,
    sortBy: (line) => (line.jobs === 0 ? null : line.cost / line.jobs),
  },
];
