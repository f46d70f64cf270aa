import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { JsonView } from "../components/JsonView";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { SearchField } from "../components/SearchField";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import type { Schemas } from "../services/api";
import { shortIds } from "../services/format";
import { auditQuery } from "../services/lists";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/audit")({ component: Audit });

type Line = Schemas["AuditView"];

function Audit() {
  const { actor, target, cursor } = Route.useSearch();
  const audit = useLive(auditQuery({ actor, target, cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Audit"
      lead="Who did what to whom, newest first. Acts of operators and keys; nothing here is ever changed."
      actions={<LiveNote at={audit.dataUpdatedAt} isFailing={audit.isError} />}
    >
      <div className={styles.filters}>
        <SearchField
          label="Actor, in full"
          value={actor}
          placeholder="key ficha_admin_…"
          onSearch={(text) => void navigate({ to: "/audit", search: { actor: text, target } })}
        />
        <SearchField
          label="Target, in full"
          value={target}
          placeholder="account ana"
          onSearch={(text) => void navigate({ to: "/audit", search: { actor, target: text } })}
        />
      </div>
      <Loaded query={audit} what="the audit log">
        {({ items, next }) => (
          <>
            <DataTable
              label="Audit log"
              columns={COLUMNS}
              rows={items}
              rowKey={(line) => String(line.number)}
              empty={
                actor === undefined && target === undefined ? (
                  <Empty title="No administrative acts yet." />
                ) : (
                  <Empty title="No act matches.">
                    <Link to="/audit">Clear the filters</Link>
                  </Empty>
                )
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "act"]}
              onGo={(to) => void navigate({ to: "/audit", search: { actor, target, cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const COLUMNS: Column<Line>[] = [
  { id: "number", header: "#", align: "right", onPhone: "hidden", cell: (line) => line.number },
  { id: "at", header: "When", cell: (line) => <TimeAgo at={line.at} /> },
  {
    id: "actor",
    header: "Who",
    cell: (line) => (
      <Link to="/audit" search={{ actor: line.actor }} title="Only what this one did">
        {line.actor}
      </Link>
    ),
  },
  { id: "act", header: "Act", onPhone: "title", cell: (line) => line.act.replaceAll("_", " ") },
  {
    id: "target",
    header: "Target",
    cell: (line) => <Target target={line.target} />,
  },
  { id: "details", header: "Details", width: "grow", cell: (line) => <Details line={line} /> },
];

/** A target such as "pool images" or "account ana": it leads to what it names, and to all acts upon it. */
function Target({ target }: { target: string }) {
  const [, kind, name = ""] = /^(account|job|pool|batch) (.+)$/s.exec(target) ?? [];
  const shown = <span title={target}>{shortIds(target)}</span>;
  const link =
    kind === "account" ? (
      <Link to="/accounts/$account" params={{ account: name }}>
        {shown}
      </Link>
    ) : kind === "job" ? (
      <Link to="/jobs/$job" params={{ job: name }}>
        {shown}
      </Link>
    ) : kind === "batch" ? (
      <Link to="/batches/$batch" params={{ batch: name }}>
        {shown}
      </Link>
    ) : kind === "pool" ? (
      <Link to="/pools">{shown}</Link>
    ) : (
      shown
    );
  return (
    <span className={styles.target}>
      {link}{" "}
      <Link to="/audit" search={{ target }} aria-label={`All acts on ${target}`} title="All acts on this">
        all acts
      </Link>
    </span>
  );
}

function Details({ line }: { line: Line }) {
  const details = Object.entries(line.details as Record<string, unknown>);
  if (details.length === 0) return <span className="muted">–</span>;
  const isFlat = details.every(([, value]) => value === null || typeof value !== "object");
  if (!isFlat) {
    return (
      <details>
        <summary>{details.map(([name]) => name).join(", ")}</summary>
        <JsonView of={line} field="details" label="details" />
      </details>
    );
  }
  const words = details.map(([name, value]) => `${name} ${value}`).join(" · ");
  return <span title={words}>{shortIds(words)}</span>;
}
