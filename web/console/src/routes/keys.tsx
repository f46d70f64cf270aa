import { createLazyRoute, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ActButton } from "../components/ActButton";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { KeyTable } from "../components/KeyTable";
import { LiveNote } from "../components/LiveNote";
import { Loaded } from "../components/Loaded";
import { Page } from "../components/Page";
import { Pager } from "../components/Pager";
import { SecretDialog } from "../components/SecretDialog";
import { useLive } from "../hooks/useLive";
import { api, type Schemas } from "../services/api";
import { apiKeysQuery } from "../services/lists";

export const Route = createLazyRoute("/keys")({ component: Keys });

function Keys() {
  const { cursor } = Route.useSearch();
  const keys = useLive(apiKeysQuery({ cursor, limit: 50 }));
  const navigate = useNavigate();
  return (
    <Page
      title="Keys"
      lead="Who may call the API, with which rights, and which keys are still used."
      actions={
        <>
          <LiveNote at={keys.dataUpdatedAt} isFailing={keys.isError} />
          <Create />
        </>
      }
    >
      <Loaded query={keys} what="the keys">
        {({ items, next }) => (
          <>
            <KeyTable
              keys={items}
              empty={
                <Empty title="No API keys.">
                  <p>Users may also sign in with tokens of your own; a key is for a program or an operator.</p>
                </Empty>
              }
            />
            <Pager
              cursor={cursor}
              next={next}
              shown={[items.length, "key"]}
              onGo={(to) => void navigate({ to: "/keys", search: { cursor: to } })}
            />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const SCOPES = {
  user: "user: one account's own jobs",
  service: "service: submits for any account",
  viewer: "viewer: reads everything, changes nothing",
  admin: "admin: everything",
} as const;

type Scope = keyof typeof SCOPES;

const TIMES = {
  "": "never",
  "86400": "in a day",
  "604800": "in a week",
  "2592000": "in 30 days",
  "31536000": "in a year",
};

function Create() {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Scope>("service");
  const [account, setAccount] = useState("");
  const [ttl, setTtl] = useState("7776000");
  const [made, setMade] = useState<Schemas["NewApiKey"]>();
  return (
    <>
      <ActButton
        label="Create key"
        look="solid"
        title="Create an API key"
        confirm="Create it"
        typed={scope === "admin" ? "admin" : undefined}
        problem={
          name.trim() === ""
            ? "Name the key: who or what will use it."
            : scope === "user" && account.trim() === ""
              ? "A user's key needs the account."
              : undefined
        }
        refresh={["api-keys"]}
        onOpen={() => {
          setName("");
          setScope("service");
          setAccount("");
          setTtl("2592000");
        }}
        run={async () => {
          const answer = await api.post("/api/admin/api-keys", {
            name: name.trim(),
            scope,
            account: scope === "user" ? account.trim() : null,
            ttl_s: ttl === "" ? null : Number(ttl),
          });
          setMade(answer);
          return `Key “${answer.key.name}” is made.`;
        }}
      >
        <Field label="Name" isRequired help="Who or what uses it, such as “shop back end”.">
          {(parts) => (
            <input {...parts} className="field" value={name} onChange={(event) => setName(event.target.value)} />
          )}
        </Field>
        <Field label="Scope">
          {(parts) => (
            <select
              {...parts}
              className="field"
              value={scope}
              onChange={(event) => setScope(event.target.value as Scope)}
            >
              {Object.entries(SCOPES).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
        {scope === "user" && (
          <Field label="Account" isRequired>
            {(parts) => (
              <input
                {...parts}
                className="field"
                value={account}
                onChange={(event) => setAccount(event.target.value)}
              />
            )}
          </Field>
        )}
        <Field label="Ends">
          {(parts) => (
            <select {...parts} className="field" value={ttl} onChange={(event) => setTtl(event.target.value)}>
              {Object.entries(TIMES).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
      </ActButton>
      <SecretDialog
        secret={made?.secret}
        title={`Key “${made?.key.name ?? ""}”`}
        help="Give it to whoever calls the API, as Authorization: Bearer."
        onClose={() => setMade(undefined)}
      />
    </>
  );
}
