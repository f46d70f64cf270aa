import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ActButton } from "../components/ActButton";
import { type Column, DataTable } from "../components/DataTable";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { AccountLink, JobLink } from "../components/JobLink";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { PlanSelect } from "../components/PlanSelect";
import { SearchField } from "../components/SearchField";
import { TimeAgo } from "../components/TimeAgo";
import { useLive } from "../hooks/useLive";
import { api, type Schemas } from "../services/api";
import { formatCount } from "../services/format";
import { accountsQuery } from "../services/lists";
import { searchText } from "../services/search-text";
import { wholeNumber } from "../services/whole-number";
import styles from "./lists.module.css";

export const Route = createLazyRoute("/accounts")({ component: Accounts });

type Account = Schemas["AccountView"];

function Accounts() {
  const { search, cursor } = Route.useSearch();
  const accounts = useLive(accountsQuery({ search, cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Accounts"
      lead="Who pays: balances, plans, and what each has running."
      actions={
        <>
          <LiveNote at={accounts.dataUpdatedAt} isFailing={accounts.isError} />
          <OpenAccount />
        </>
      }
    >
      <div className={styles.filters}>
        <SearchField
          label="Name begins with"
          value={search}
          onSearch={(text) => void navigate({ to: "/accounts", search: { search: text } })}
        />
      </div>
      <Loaded query={accounts} what="the accounts">
        {({ items, next }) => (
          <>
            <DataTable
              label="Accounts"
              columns={COLUMNS}
              rows={items}
              rowKey={(account) => account.id}
              onOpen={(account) => void navigate({ to: "/accounts/$account", params: { account: account.id } })}
              empty={
                search === undefined ? (
                  <Empty title="No accounts yet.">
                    <p>Your application opens one for each customer; the button above does too.</p>
                  </Empty>
                ) : (
                  <Empty title={`No account begins with “${search}”.`}>
                    <Link to="/accounts">Show all accounts</Link>
                  </Empty>
                )
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "account"]}
              onGo={(to) => void navigate({ to: "/accounts", search: { search, cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const COLUMNS: Column<Account>[] = [
  { id: "id", header: "Account", onPhone: "title", cell: (account) => <AccountLink id={account.id} /> },
  { id: "plan", header: "Plan", cell: (account) => account.plan },
  { id: "balance", header: "Balance", align: "right", cell: (account) => <Money credits={account.balance} isBare /> },
  {
    id: "active",
    header: "Active jobs",
    align: "right",
    cell: (account) => (
      <Link
        to="/jobs"
        search={{ search: searchText({ account: account.id, state: ["queued", "starting", "running"] }) }}
      >
        {formatCount(account.active)}
      </Link>
    ),
  },
  {
    id: "submitted",
    header: "Submitted",
    align: "right",
    cell: (account) => (
      <Link to="/jobs" search={{ search: searchText({ account: account.id }) }}>
        {formatCount(account.submitted)}
      </Link>
    ),
  },
  {
    id: "today",
    header: "Spent today",
    align: "right",
    cell: (account) => <Money credits={account.spent_today} isBare />,
  },
  {
    id: "month",
    header: "This month",
    align: "right",
    cell: (account) => <Money credits={account.spent_this_month} isBare />,
  },
  { id: "job", header: "Active job", cell: (account) => <JobLink id={account.active_job} /> },
  { id: "opened", header: "Opened", align: "right", cell: (account) => <TimeAgo at={account.opened_at} /> },
];

function OpenAccount() {
  const [name, setName] = useState("");
  const [plan, setPlan] = useState("");
  const [credits, setCredits] = useState("0");
  const navigate = useNavigate();
  const amount = wholeNumber(credits);
  return (
    <ActButton
      label="Open account"
      title="Open an account?"
      confirm="Open it"
      problem={
        name.trim() === ""
          ? "The account needs a name."
          : amount === undefined || amount < 0
            ? "Credits are a whole number from 0 up."
            : undefined
      }
      refresh={["accounts"]}
      onOpen={() => {
        setName("");
        setPlan("");
        setCredits("0");
      }}
      run={async () => {
        const opened = await api.post("/api/admin/accounts", {
          account: name.trim(),
          plan: plan || null,
          credits: amount ?? 0,
          exist_ok: false,
        });
        await navigate({ to: "/accounts/$account", params: { account: opened.id } });
        return `Account ${opened.id} is open.`;
      }}
    >
      <Field label="Name" isRequired>
        {(parts) => (
          <input {...parts} className="field" value={name} onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <PlanSelect value={plan} onChange={setPlan} none="the application's default" />
      <Field label="First credits">
        {(parts) => (
          <input
            {...parts}
            className="field"
            inputMode="numeric"
            value={credits}
            onChange={(event) => setCredits(event.target.value)}
          />
        )}
      </Field>
    </ActButton>
  );
}
