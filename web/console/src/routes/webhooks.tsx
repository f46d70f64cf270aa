import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ActButton } from "../components/ActButton";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { AccountLink, JobLink } from "../components/JobLink";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { SearchField } from "../components/SearchField";
import { StateBadge } from "../components/StateBadge";
import { Tabs } from "../components/Tabs";
import { TimeAgo } from "../components/TimeAgo";
import { WebhookSecret, WebhookTable } from "../components/WebhookTable";
import { useLive } from "../hooks/useLive";
import { api, type Schemas } from "../services/api";
import { deliveriesQuery, webhooksQuery } from "../services/lists";
import styles from "./lists.module.css";
import { DELIVERY_STATES } from "./webhooks.search";

export const Route = createLazyRoute("/webhooks")({ component: Webhooks });

type Delivery = Schemas["DeliveryView"];

function Webhooks() {
  const search = Route.useSearch();
  const { account, state, webhook, cursor } = search;
  const endpoints = useLive(webhooksQuery(account), 10_000);
  const deliveries = useLive(deliveriesQuery({ account, webhook, state, cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Webhooks"
      lead="Who is told of what happens, and which messages did not arrive."
      actions={
        <>
          <LiveNote at={deliveries.dataUpdatedAt} isFailing={deliveries.isError} />
          <Add account={account} />
        </>
      }
    >
      <div className={styles.filters}>
        <SearchField
          label="Account"
          value={account}
          placeholder="the operator's own"
          onSearch={(text) => void navigate({ to: "/webhooks", search: { account: text } })}
        />
      </div>
      <section className={styles.section}>
        <h2>Endpoints</h2>
        <Loaded query={endpoints} what="the endpoints">
          {({ items }) => (
            <WebhookTable
              webhooks={items}
              account={account}
              empty={
                <Empty title={account === undefined ? "No endpoints of the operator." : `${account} has no endpoints.`}>
                  <p>
                    An endpoint gets a signed message when a job ends or credits run low. The operator's own hear of
                    every account.
                  </p>
                </Empty>
              }
            />
          )}
        </Loaded>
      </section>
      <section className={styles.section}>
        <div className={styles.sectionHead}>
          <h2>Messages</h2>
          {webhook !== undefined && (
            <span>
              to one endpoint ·{" "}
              <Link to="/webhooks" search={{ ...search, webhook: undefined, cursor: undefined }}>
                show all
              </Link>
            </span>
          )}
        </div>
        <Tabs label="Messages by state">
          {([undefined, ...DELIVERY_STATES] as const).map((one) => (
            <Link
              key={one ?? "all"}
              to="/webhooks"
              search={{ account, webhook, state: one }}
              aria-current={one === state ? "page" : undefined}
              // Else the router takes the link to all for the present one as well.
              activeOptions={{ exact: true }}
            >
              {one === undefined ? "All" : one.charAt(0).toUpperCase() + one.slice(1)}
            </Link>
          ))}
        </Tabs>
        <Loaded query={deliveries} what="the messages">
          {({ items, next }) => (
            <>
              <DataTable
                label="Messages"
                columns={COLUMNS}
                rows={items}
                rowKey={(delivery) => delivery.id}
                empty={<Empty title={state === undefined ? "No messages yet." : `No messages are ${state}.`} />}
              />
              <Pager
                cursor={cursor}
                next={next}
                shown={[items.length, "message"]}
                onGo={(to) => void navigate({ to: "/webhooks", search: { ...search, cursor: to } })}
              />
            </>
          )}
        </Loaded>
      </section>
    </Page>
  );
}

const COLUMNS: Column<Delivery>[] = [
  { id: "event", header: "Event", onPhone: "title", cell: (one) => one.event },
  { id: "state", header: "State", cell: (one) => <StateBadge state={one.state} /> },
  { id: "job", header: "Job", cell: (one) => <JobLink id={one.job_id} /> },
  { id: "account", header: "Account", cell: (one) => <AccountLink id={one.account} /> },
  { id: "attempts", header: "Attempts", align: "right", cell: (one) => one.attempts },
  { id: "answered", header: "Answer", align: "right", cell: (one) => one.answered ?? "–" },
  {
    id: "error",
    header: "Last error",
    width: "grow",
    cell: (one) => <span title={one.error ?? undefined}>{one.error ?? "–"}</span>,
  },
  {
    id: "at",
    header: "When",
    align: "right",
    cell: (one) =>
      one.next_at !== null ? (
        <>
          next <TimeAgo at={one.next_at} isDue />
        </>
      ) : (
        <TimeAgo at={one.ended_at ?? one.created_at} />
      ),
  },
  { id: "acts", header: "", align: "right", cell: (one) => <Resend delivery={one} /> },
];

function Resend({ delivery }: { delivery: Delivery }) {
  return (
    <ActButton
      label="Resend"
      spoken={`Resend ${delivery.event} ${delivery.id}`}
      title="Send this message again?"
      confirm="Send it again"
      refresh={["webhooks"]}
      run={async () => {
        await api.post("/api/webhook-deliveries/{delivery_id}/resend", undefined, {
          path: { delivery_id: delivery.id },
          query: { account: delivery.account ?? undefined },
        });
        return "The message is on its way again.";
      }}
    >
      <p>It has the same id, so a receiver that keeps to the rules acts on it once.</p>
    </ActButton>
  );
}

const EVENTS = ["job.completed", "job.failed", "job.cancelled", "credits.low"] as const;

function Add({ account }: { account: string | undefined }) {
  const [url, setUrl] = useState("");
  const [description, setDescription] = useState("");
  const [events, setEvents] = useState<(typeof EVENTS)[number][]>([]);
  const [secret, setSecret] = useState<string>();
  return (
    <>
      <ActButton
        label="Add endpoint"
        title={account === undefined ? "Add an endpoint of the operator" : `Add an endpoint of ${account}`}
        confirm="Add it"
        problem={/^https?:\/\/\S+$/.test(url.trim()) ? undefined : "Write the whole address, beginning with https://."}
        refresh={["webhooks"]}
        onOpen={() => {
          setUrl("");
          setDescription("");
          setEvents([]);
        }}
        run={async () => {
          const made = await api.post("/api/webhook-endpoints", {
            url: url.trim(),
            account: account ?? null,
            events,
            description: description.trim(),
          });
          setSecret(made.secret);
          return "The endpoint is added.";
        }}
      >
        <Field label="Address" isRequired>
          {(parts) => (
            <input
              {...parts}
              type="url"
              className="field"
              placeholder="https://"
              value={url}
              onChange={(event) => setUrl(event.target.value)}
            />
          )}
        </Field>
        <Field label="What it is for">
          {(parts) => (
            <input
              {...parts}
              className="field"
              value={description}
              onChange={(event) => setDescription(event.target.value)}
            />
          )}
        </Field>
        <fieldset className={styles.checks}>
          <legend>Events (none chosen: all)</legend>
          {EVENTS.map((name) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={events.includes(name)}
                onChange={(event) =>
                  setEvents(event.target.checked ? [...events, name] : events.filter((other) => other !== name))
                }
              />{" "}
              {name}
            </label>
          ))}
        </fieldset>
      </ActButton>
      <WebhookSecret secret={secret} onClose={() => setSecret(undefined)} />
    </>
  );
}
