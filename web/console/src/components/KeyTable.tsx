import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, type Schemas } from "../services/api";
import { ActButton } from "./ActButton";
import { type Column, DataTable } from "./DataTable";
import { AccountLink } from "./JobLink";
import { StateBadge } from "./StateBadge";
import { TimeAgo } from "./TimeAgo";

type Key = Schemas["ApiKeyView"];

export function KeyTable({ keys, empty }: { keys: Key[]; empty: ReactNode }) {
  return <DataTable label="API keys" columns={COLUMNS} rows={keys} rowKey={(key) => key.id} empty={empty} />;
}

const COLUMNS: Column<Key>[] = [
  {
    id: "name",
    header: "Name",
    onPhone: "title",
    width: "grow",
    cell: (key) => <span title={key.name}>{key.name}</span>,
  },
  {
    id: "jobs",
    header: "Jobs",
    cell: (key) => (
      <Link to="/jobs" search={{ search: `key:${key.id}` }} aria-label={`Jobs submitted with key ${key.name}`}>
        jobs
      </Link>
    ),
  },
  { id: "hint", header: "Begins with", cell: (key) => <code>{key.hint}…</code> },
  { id: "scope", header: "Scope", cell: (key) => key.scope },
  { id: "state", header: "State", cell: (key) => <StateBadge state={key.state} /> },
  { id: "account", header: "Account", cell: (key) => <AccountLink id={key.account} /> },
  { id: "used", header: "Last used", align: "right", cell: (key) => <TimeAgo at={key.last_used_at} never="never" /> },
  { id: "created", header: "Created", align: "right", cell: (key) => <TimeAgo at={key.created_at} /> },
  {
    id: "ends",
    header: "Ends",
    align: "right",
    cell: (key) => <TimeAgo at={key.revoked_at ?? key.expires_at} never="never" />,
  },
  { id: "acts", header: "", align: "right", cell: (key) => <Revoke apiKey={key} /> },
];

function Revoke({ apiKey }: { apiKey: Key }) {
  if (apiKey.state !== "live") return null;
  return (
    <ActButton
      label="Revoke"
      spoken={`Revoke key ${apiKey.name}`}
      title={`Revoke key “${apiKey.name}”?`}
      confirm="Revoke it"
      isDangerous
      typed={apiKey.scope === "admin" ? "revoke" : undefined}
      refresh={["api-keys"]}
      run={async () => {
        await api.post("/api/admin/api-keys/{key_id}/revoke", undefined, { path: { key_id: apiKey.id } });
        return `Key “${apiKey.name}” is revoked.`;
      }}
    >
      <p>
        Whoever uses <code>{apiKey.hint}…</code> is refused from now on, within two seconds everywhere. It cannot be
        undone.
      </p>
    </ActButton>
  );
}
