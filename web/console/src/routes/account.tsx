import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ActButton } from "../components/ActButton";
import { Bar } from "../components/Bar";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { JobLink } from "../components/JobLink";
import { KeyTable } from "../components/KeyTable";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { PlanSelect } from "../components/PlanSelect";
import { Stat, StatRow } from "../components/Stat";
import { StateBadge } from "../components/StateBadge";
import { Tabs } from "../components/Tabs";
import { TimeAgo } from "../components/TimeAgo";
import { WebhookTable } from "../components/WebhookTable";
import { useLive } from "../hooks/useLive";
import { api, Problem, type Schemas } from "../services/api";
import { formatBytes, formatCount, formatCredits } from "../services/format";
import { accountQuery, apiKeysQuery, filesQuery, ledgerQuery, webhooksQuery } from "../services/lists";
import { searchText } from "../services/search-text";
import { wholeNumber } from "../services/whole-number";
import styles from "./account.module.css";
import { ACCOUNT_TABS, type AccountSearch } from "./account.search";

export const Route = createLazyRoute("/accounts/$account")({ component: AccountPage });

type Account = Schemas["AccountAnswer"];

const TAB_WORDS = { ledger: "Ledger", files: "Files", webhooks: "Webhooks", keys: "Keys" };

function AccountPage() {
  const { account: id } = Route.useParams();
  const { tab = "ledger", cursor } = Route.useSearch();
  const query = useLive(accountQuery(id));
  if (query.error instanceof Problem && query.error.status === 404)
    return (
      <Page title={id}>
        <Empty title={`There is no account “${id}”.`}>
          <p>
            Your application opens one for each customer; so can you, in <Link to="/accounts">Accounts</Link>.
          </p>
        </Empty>
      </Page>
    );
  return (
    <Page
      title={id}
      lead="Where its credits went, and what its plan allows."
      actions={
        <>
          <LiveNote at={query.dataUpdatedAt} isFailing={query.isError} />
          {query.data && (
            <>
              <Credit account={query.data} verb="grant" />
              <Credit account={query.data} verb="adjust" />
              <ChangePlan account={query.data} />
            </>
          )}
        </>
      }
    >
      <Loaded query={query} what="this account">
        {(account) => (
          <>
            <StatRow>
              <Stat label="Balance" value={<Money credits={account.balance} />} />
              <Stat
                label="Plan"
                value={account.plan}
                note={
                  <>
                    opened <TimeAgo at={account.opened_at} />
                  </>
                }
              />
              <Stat
                label="Active jobs"
                hue="running"
                value={
                  <Link
                    to="/jobs"
                    search={{ search: searchText({ account: id, state: ["queued", "starting", "running"] }) }}
                  >
                    {formatCount(account.active)}
                  </Link>
                }
                note={account.parked > 0 ? `${formatCount(account.parked)} parked` : undefined}
              />
              <Stat
                label="Submitted"
                value={
                  <Link to="/jobs" search={{ search: searchText({ account: id }) }}>
                    {formatCount(account.submitted)}
                  </Link>
                }
                note={
                  <Link to="/jobs" search={{ search: searchText({ account: id, state: "failed" }) }}>
                    those that failed
                  </Link>
                }
              />
            </StatRow>
            <Usage account={account} />
          </>
        )}
      </Loaded>
      <Tabs label="Parts of this account">
        {ACCOUNT_TABS.map((one) => (
          <Link
            key={one}
            to="/accounts/$account"
            params={{ account: id }}
            search={{ tab: one }}
            aria-current={one === tab ? "page" : undefined}
            activeProps={{}}
          >
            {TAB_WORDS[one]}
          </Link>
        ))}
      </Tabs>
      {tab === "ledger" && <Ledger account={id} cursor={cursor} />}
      {tab === "files" && <Files account={id} cursor={cursor} />}
      {tab === "webhooks" && <Webhooks account={id} />}
      {tab === "keys" && <Keys account={id} />}
    </Page>
  );
}

/** How much of each limit of the plan is used. Limits that do not bind are not shown. */
function Usage({ account }: { account: Account }) {
  const { limits } = account;
  const credits = (value: number) => formatCredits(value);
  const lines: [label: string, used: number, limit: number | null | undefined, show: (value: number) => string][] = [
    ["Active jobs", account.active, limits?.max_active, formatCount],
    ["Submits this hour", account.submits_this_hour, limits?.per_hour, formatCount],
    ["Spent today", account.spent_today, limits?.daily_limit, credits],
    ["Spent this month", account.spent_this_month, limits?.monthly_limit, credits],
    ["Files", account.files, limits?.max_files, formatCount],
    ["Storage", account.storage_bytes, limits?.storage_bytes, formatBytes],
  ];
  return (
    <section className={`panel ${styles.usage}`}>
      <h2>Usage against the limits of plan {account.plan}</h2>
      <dl className={styles.limits}>
        {lines.map(([label, used, limit, show]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>
              <span className="number">
                {show(used)}{" "}
                <span className="muted">
                  {limit === null || limit === undefined ? "no limit" : `of ${show(limit)}`}
                </span>
              </span>
              {limit !== null && limit !== undefined && (
                <Bar
                  label={label}
                  parts={[{ label: "used", value: Math.min(used, limit), hue: used >= limit ? "failed" : "running" }]}
                  total={limit}
                />
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Credit({ account, verb }: { account: Account; verb: "grant" | "adjust" }) {
  const [text, setText] = useState("");
  const amount = wholeNumber(text);
  const isGrant = verb === "grant";
  const problem =
    amount === undefined || amount === 0
      ? "Say how many credits, as a whole number."
      : isGrant && amount < 0
        ? "A grant adds. To take credits away, adjust."
        : account.balance + amount < 0
          ? `That would leave ${formatCredits(account.balance + amount)}; a balance never goes below zero.`
          : undefined;
  return (
    <ActButton
      label={isGrant ? "Grant" : "Adjust"}
      look={isGrant ? "solid" : "quiet"}
      title={isGrant ? `Grant credits to ${account.id}?` : `Correct the balance of ${account.id}?`}
      confirm={
        amount === undefined || problem
          ? isGrant
            ? "Grant"
            : "Adjust"
          : `${isGrant ? "Grant" : "Adjust by"} ${formatCredits(amount, !isGrant)}`
      }
      money={
        amount === undefined || problem
          ? undefined
          : { verb: `${account.id} will have`, credits: account.balance + amount }
      }
      reason="required"
      problem={problem}
      isDangerous={!isGrant}
      refresh={["accounts", "overview"]}
      onOpen={() => setText("")}
      run={async (reason, key) => {
        const done = await api.post(
          isGrant ? "/api/admin/accounts/{account}/grant" : "/api/admin/accounts/{account}/adjust",
          { amount: amount ?? 0, reason, key: null },
          { path: { account: account.id }, headers: { "Idempotency-Key": key } },
        );
        return `${account.id} has ${formatCredits(done.balance)} now.`;
      }}
    >
      <Field
        label="Credits"
        isRequired
        help={isGrant ? `The balance is ${formatCredits(account.balance)}.` : "A minus takes away: −20."}
      >
        {(parts) => (
          <input
            {...parts}
            className="field"
            inputMode="text"
            autoComplete="off"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
    </ActButton>
  );
}

function ChangePlan({ account }: { account: Account }) {
  const [plan, setPlan] = useState(account.plan);
  return (
    <ActButton
      label="Change plan"
      title={`Move ${account.id} to another plan?`}
      confirm={plan === account.plan ? "Change plan" : `Move to ${plan}`}
      problem={plan === account.plan ? `It is on plan ${plan} already: choose another.` : undefined}
      refresh={["accounts"]}
      onOpen={() => setPlan(account.plan)}
      run={async () => {
        await api.post("/api/admin/accounts/{account}/plan", { plan }, { path: { account: account.id } });
        return `${account.id} is on plan ${plan} now.`;
      }}
    >
      <PlanSelect value={plan} onChange={setPlan} />
      <p>Queued jobs keep their priority. Parked ones that now fit become ready.</p>
    </ActButton>
  );
}

interface PartProps {
  account: string;
  cursor: string | undefined;
}

function useGoTo(account: string, tab: AccountSearch["tab"]) {
  const navigate = useNavigate();
  return (cursor: string | undefined) =>
    void navigate({ to: "/accounts/$account", params: { account }, search: { tab, cursor } });
}

function Ledger({ account, cursor }: PartProps) {
  const ledger = useLive(ledgerQuery(account, { cursor, limit: 50 }));
  const go = useGoTo(account, "ledger");
  return (
    <Loaded query={ledger} what="the ledger">
      {({ items, next }) => (
        <>
          <DataTable
            label={`Ledger of ${account}`}
            columns={LEDGER}
            rows={items}
            rowKey={(entry) => String(entry.number)}
            empty={<Empty title="Nothing was charged or granted yet." />}
          />
          <Pager cursor={cursor} next={next} onGo={go} shown={[items.length, "line"]} />
        </>
      )}
    </Loaded>
  );
}

const LEDGER: Column<Schemas["EntryView"]>[] = [
  { id: "number", header: "Line", align: "right", cell: (entry) => `#${entry.number}` },
  { id: "at", header: "When", cell: (entry) => <TimeAgo at={entry.at} /> },
  { id: "kind", header: "Kind", onPhone: "title", cell: (entry) => entry.kind },
  {
    id: "amount",
    header: "Credits",
    align: "right",
    cell: (entry) => <Money credits={entry.amount} withSign isBare />,
  },
  {
    id: "after",
    header: "Balance after",
    align: "right",
    cell: (entry) => <Money credits={entry.balance_after} isBare />,
  },
  { id: "job", header: "Job", cell: (entry) => <JobLink id={entry.job_id} /> },
  {
    id: "reason",
    header: "Reason",
    width: "grow",
    cell: (entry) => <span title={entry.reason ?? undefined}>{entry.reason ?? "–"}</span>,
  },
];

function Files({ account, cursor }: PartProps) {
  const files = useLive(filesQuery({ account, cursor, limit: 50 }), 10_000);
  const go = useGoTo(account, "files");
  return (
    <Loaded query={files} what="the files">
      {({ items, next }) => (
        <>
          <DataTable
            label={`Files of ${account}`}
            columns={FILES}
            rows={items}
            rowKey={(file) => file.id}
            empty={<Empty title="It has no files." />}
          />
          <Pager cursor={cursor} next={next} onGo={go} shown={[items.length, "file"]} />
        </>
      )}
    </Loaded>
  );
}

const FILES: Column<Schemas["FileView"]>[] = [
  {
    id: "name",
    header: "File",
    width: "grow",
    onPhone: "title",
    cell: (file) =>
      file.state === "stored" ? (
        <a href={`/api/files/${encodeURIComponent(file.id)}`} title={file.name}>
          {file.name}
        </a>
      ) : (
        file.name
      ),
  },
  { id: "state", header: "State", cell: (file) => <StateBadge state={file.state} /> },
  { id: "role", header: "Role", cell: (file) => file.role },
  { id: "type", header: "Type", cell: (file) => file.media_type },
  { id: "size", header: "Size", align: "right", cell: (file) => formatBytes(file.size) },
  { id: "job", header: "Job", cell: (file) => <JobLink id={file.job} /> },
  { id: "at", header: "Stored", align: "right", cell: (file) => <TimeAgo at={file.created_at} /> },
  { id: "expires", header: "Expires", align: "right", cell: (file) => <TimeAgo at={file.expires_at} never="never" /> },
];

function Webhooks({ account }: { account: string }) {
  const webhooks = useLive(webhooksQuery(account), 10_000);
  return (
    <Loaded query={webhooks} what="the webhooks">
      {({ items }) => (
        <WebhookTable webhooks={items} account={account} empty={<Empty title="It has no webhook endpoints." />} />
      )}
    </Loaded>
  );
}

const KEYS_LOOKED_AT = 200;

function Keys({ account }: { account: string }) {
  const keys = useLive(apiKeysQuery({ limit: KEYS_LOOKED_AT }), 10_000);
  return (
    <Loaded query={keys} what="the keys">
      {({ items, next }) => (
        <>
          <KeyTable
            keys={items.filter((key) => key.account === account)}
            empty={
              <Empty title="It has no API keys.">
                <Link to="/keys">Make one</Link>
              </Empty>
            }
          />
          {next !== null && (
            <p className="muted">
              Looked for among the newest {KEYS_LOOKED_AT} keys. <Link to="/keys">All keys</Link>
            </p>
          )}
        </>
      )}
    </Loaded>
  );
}
