import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, type Schemas } from "../services/api";
import { ActButton } from "./ActButton";
import { type Column, DataTable } from "./DataTable";
import { Field } from "./Field";
import { SecretDialog } from "./SecretDialog";
import { StateBadge } from "./StateBadge";
import { TimeAgo } from "./TimeAgo";

type Webhook = Schemas["WebhookView"];

export interface WebhookTableProps {
  webhooks: Webhook[];
  /** Whose they are; undefined for the operator's own. */
  account: string | undefined;
  empty: ReactNode;
}

export function WebhookTable({ webhooks, account, empty }: WebhookTableProps) {
  const [secret, setSecret] = useState<string>();
  const columns: Column<Webhook>[] = [
    ...COLUMNS,
    {
      id: "acts",
      header: "",
      align: "right",
      cell: (webhook) => (
        <>
          <Test webhook={webhook} account={account} />
          {webhook.disabled_at !== null && <Enable webhook={webhook} account={account} />}
          <Rotate webhook={webhook} account={account} onSecret={setSecret} />
          <Remove webhook={webhook} account={account} />
        </>
      ),
    },
  ];
  return (
    <>
      {webhooks
        .filter((webhook) => webhook.disabled_reason !== null)
        .map((webhook) => (
          <p key={webhook.id} className="muted">
            {webhook.url} was disabled <TimeAgo at={webhook.disabled_at} />: {webhook.disabled_reason}
          </p>
        ))}
      <DataTable
        label="Webhook endpoints"
        columns={columns}
        rows={webhooks}
        rowKey={(webhook) => webhook.id}
        isMarked={(webhook) => webhook.failing_since_at !== null}
        empty={empty}
      />
      <WebhookSecret secret={secret} onClose={() => setSecret(undefined)} />
    </>
  );
}

export function WebhookSecret({ secret, onClose }: { secret: string | undefined; onClose: () => void }) {
  return (
    <SecretDialog
      secret={secret}
      title="The endpoint's new secret"
      help="The receiver checks signatures with it."
      onClose={onClose}
    />
  );
}

const COLUMNS: Column<Webhook>[] = [
  {
    id: "url",
    header: "Address",
    onPhone: "title",
    width: "grow",
    cell: (webhook) => (
      <span title={`${webhook.url}${webhook.description && ` · ${webhook.description}`}`}>
        <Link to="/webhooks" search={{ webhook: webhook.id }}>
          {webhook.url}
        </Link>
        {webhook.description && <span className="muted"> {webhook.description}</span>}
      </span>
    ),
  },
  {
    id: "state",
    header: "State",
    cell: (webhook) => <StateBadge state={stateOf(webhook)} />,
  },
  {
    id: "events",
    header: "Events",
    cell: (webhook) => (webhook.events.length === 0 ? "all" : webhook.events.join(", ")),
  },
  {
    id: "since",
    header: "Failing since",
    align: "right",
    cell: (webhook) => <TimeAgo at={webhook.failing_since_at} />,
  },
];

export function stateOf(
  webhook: Pick<Webhook, "disabled_at" | "failing_since_at">,
): "disabled" | "failing" | "enabled" {
  if (webhook.disabled_at !== null) return "disabled";
  return webhook.failing_since_at !== null ? "failing" : "enabled";
}

interface ActProps {
  webhook: Webhook;
  account: string | undefined;
}

const call = ({ webhook, account }: ActProps) => ({ path: { webhook_id: webhook.id }, query: { account } });

function Test(props: ActProps) {
  return (
    <ActButton
      label="Test"
      spoken={`Test ${props.webhook.url}`}
      title="Send a test message?"
      confirm="Send it"
      refresh={["webhooks"]}
      run={async () => {
        await api.post("/api/webhook-endpoints/{webhook_id}/test", undefined, call(props));
        return "A test is on its way. The messages show what came of it.";
      }}
    >
      <p>
        Sends <code>webhook.test</code> once to {props.webhook.url}.
      </p>
    </ActButton>
  );
}

function Enable(props: ActProps) {
  return (
    <ActButton
      label="Enable"
      spoken={`Enable ${props.webhook.url}`}
      title="Enable this endpoint?"
      confirm="Enable it"
      refresh={["webhooks"]}
      run={async () => {
        await api.post("/api/webhook-endpoints/{webhook_id}/enable", undefined, call(props));
        return "The endpoint is enabled.";
      }}
    >
      <p>It is told of what happens from now on. What it missed can be sent again from the list of messages.</p>
    </ActButton>
  );
}

function Rotate({ onSecret, ...props }: ActProps & { onSecret: (secret: string) => void }) {
  const [hours, setHours] = useState("24");
  const number = Number(hours);
  const isGood = hours.trim() !== "" && number >= 0 && Number.isFinite(number);
  return (
    <ActButton
      label="Rotate"
      spoken={`Rotate the secret of ${props.webhook.url}`}
      title="Make a new secret?"
      confirm="Make a new secret"
      problem={isGood ? undefined : "Say for how many hours the old secret signs too."}
      refresh={["webhooks"]}
      onOpen={() => setHours("24")}
      run={async () => {
        const made = await api.post(
          "/api/webhook-endpoints/{webhook_id}/rotate",
          { overlap_s: number * 3600 },
          call(props),
        );
        onSecret(made.secret);
        return "The endpoint has a new secret.";
      }}
    >
      <Field label="Hours that the old secret signs too" help="0 ends it at once: use that when it leaked.">
        {(parts) => (
          <input
            {...parts}
            className="field"
            inputMode="decimal"
            value={hours}
            onChange={(event) => setHours(event.target.value)}
          />
        )}
      </Field>
    </ActButton>
  );
}

function Remove(props: ActProps) {
  return (
    <ActButton
      label="Remove"
      spoken={`Remove ${props.webhook.url}`}
      title="Remove this endpoint?"
      confirm="Remove it"
      isDangerous
      refresh={["webhooks"]}
      run={async () => {
        await api.post("/api/webhook-endpoints/{webhook_id}/remove", undefined, call(props));
        return "The endpoint is removed.";
      }}
    >
      <p>Nothing more is sent to {props.webhook.url}.</p>
    </ActButton>
  );
}
