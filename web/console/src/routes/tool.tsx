import { useQuery } from "@tanstack/react-query";
import { createLazyRoute, Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useMemo, useRef, useState } from "react";
import { ToolBrakes, ToolState } from "../components/Brakes";
import { Button } from "../components/Button";
import { Empty } from "../components/Empty";
import { Field } from "../components/Field";
import { JsonView } from "../components/JsonView";
import { Loaded } from "../components/Loaded";
import { Money } from "../components/Money";
import { Page } from "../components/Page";
import { SchemaForm } from "../components/SchemaForm";
import { Stat, StatRow } from "../components/Stat";
import { toast } from "../components/Toast";
import { useLive } from "../hooks/useLive";
import { useSettled } from "../hooks/useSettled";
import { useMayAct } from "../hooks/useSignedIn";
import { api, Problem, type Schemas, wordsOf } from "../services/api";
import { formatCredits, formatDuration, plural } from "../services/format";
import { aboutWords } from "../services/job-words";
import { accountsQuery, brakesQuery, toolsQuery } from "../services/lists";
import { newKey } from "../services/new-key";
import { invalidate } from "../services/queries";
import {
  type Draft,
  draftOf,
  type Errors,
  fieldErrors,
  formOf,
  isMissing,
  type JsonSchema,
  payloadOf,
} from "../services/schema-form";
import { upload } from "../services/upload";
import styles from "./tool.module.css";

export const Route = createLazyRoute("/tools/$tool")({ component: ToolPage });

type Tool = Schemas["ToolView"];

function ToolPage() {
  const { tool: name } = Route.useParams();
  const tools = useQuery(toolsQuery);
  const brakes = useLive(brakesQuery);
  const tool = tools.data?.items.find((one) => one.name === name);
  return (
    <Page title={name} lead={tool?.description ?? <Link to="/tools">All tools</Link>}>
      <Loaded query={tools} what="this tool">
        {() =>
          tool === undefined ? (
            <Empty title={`There is no tool ${name}.`}>
              <Link to="/tools">Show all tools</Link>
            </Empty>
          ) : (
            <>
              <StatRow>
                <Stat label="Price" value={tool.price === null ? "by payload" : <Money credits={tool.price} />} />
                <Stat label="Pool" value={<Link to="/pools">{tool.pool}</Link>} />
                <Stat label="Attempts" value={tool.attempts} />
                <Stat label="Time-out" value={formatDuration(tool.timeout_s)} />
                <Stat label="Plans" value={tool.plans?.join(", ") ?? "all"} />
              </StatRow>
              <section className={`panel ${styles.brakes}`} aria-label="State">
                <Loaded query={brakes} what="what is stopped">
                  {({ items }) => (
                    <div className={styles.brake}>
                      <ToolState tool={tool} brakes={items} />
                      <div className={styles.buttons}>
                        <ToolBrakes tool={tool.name} brakes={items} />
                      </div>
                    </div>
                  )}
                </Loaded>
              </section>
              <Try key={tool.name} tool={tool} />
              <details>
                <summary>Schema of the payload</summary>
                <JsonView of={tool} field="schema" label="schema" />
              </details>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

/** The request of a submit or a quote: what is not said is as the server has it. */
function requestFor(tool: string, payload: object, account: string, key: string | null): Schemas["SubmitRequest"] {
  return {
    tool,
    payload: payload as Record<string, never>,
    account,
    idempotency_key: key,
    key_ttl_hours: null,
    session: null,
    run_at: null,
    correlation_id: null,
    reservation: null,
    batch: null,
    delay_s: 0,
  };
}

function Try({ tool }: { tool: Tool }) {
  const form = useMemo(() => formOf(tool.schema as JsonSchema), [tool.schema]);
  const [draft, setDraft] = useState<Draft>(() => draftOf(form));
  const [account, setAccount] = useState("");
  const [isTried, setTried] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<string>();
  const acts = useRef(false);
  // One key for each payload: a second press, or a try after a lost answer, gives the same job.
  const sent = useRef({ text: "", key: "" });
  const mayAct = useMayAct();
  const navigate = useNavigate();

  const { payload, errors } = useMemo(() => payloadOf(form, draft), [form, draft]);
  const isWhole = Object.keys(errors).length === 0;
  const asked = useSettled(
    isWhole && account.trim() !== "" ? requestFor(tool.name, payload, account.trim(), null) : null,
  );
  const quote = useQuery({
    queryKey: ["quote", JSON.stringify(asked)],
    enabled: asked !== null,
    staleTime: 5_000,
    retry: false,
    queryFn: ({ signal }) => api.post("/api/quote", asked ?? undefined, { signal }),
  });
  const told = refused ?? (asked !== null && quote.error ? wordsOf(quote.error) : undefined);
  const fromServer = told === undefined ? { errors: {}, rest: undefined } : fieldErrors(told, form);
  const early = Object.entries(errors).filter(([, words]) => isTried || !isMissing(words));
  const shown: Errors = { ...fromServer.errors, ...Object.fromEntries(early) };

  async function submit(event: FormEvent) {
    event.preventDefault();
    setTried(true);
    if (!isWhole || account.trim() === "" || acts.current || !mayAct) return;
    acts.current = true;
    setBusy(true);
    setRefused(undefined);
    const text = JSON.stringify([tool.name, account.trim(), payload]);
    if (sent.current.text !== text) sent.current = { text, key: newKey() };
    try {
      const made = await api.post("/api/jobs", requestFor(tool.name, payload, account.trim(), sent.current.key));
      toast.say(`Submitted for ${formatCredits(made.cost)}. ${account} has ${formatCredits(made.new_balance)} left.`);
      void invalidate("jobs", "accounts");
      await navigate({ to: "/jobs/$job", params: { job: made.job_id } });
    } catch (error) {
      // A refusal is an answer: the next try is another submit. Without an answer the key stays.
      if (error instanceof Problem && error.status >= 400 && error.status < 500) sent.current = { text: "", key: "" };
      setRefused(wordsOf(error));
    } finally {
      acts.current = false;
      setBusy(false);
    }
  }

  return (
    <form className={styles.try} onSubmit={submit} noValidate>
      <div className={`panel ${styles.fields}`}>
        <h2>Try it</h2>
        <SchemaForm
          form={form}
          draft={draft}
          errors={shown}
          onChange={(next) => {
            setDraft(next);
            setRefused(undefined);
          }}
          onUpload={(file, onProgress) => {
            if (account.trim() === "") throw new Error("Say first which account the file is for.");
            return upload(file, account.trim(), onProgress);
          }}
        />
      </div>
      <aside className={`panel ${styles.price}`}>
        <AccountField value={account} onChange={setAccount} isMissing={isTried && account.trim() === ""} />
        <QuoteView
          quote={asked !== null && isWhole ? quote.data : undefined}
          isWorking={quote.isFetching}
          hint={
            account.trim() === ""
              ? "Choose an account to see the price."
              : isWhole
                ? undefined
                : "Fill in the fields to see the price."
          }
        />
        <div role="alert">{fromServer.rest && <p className={styles.refused}>{fromServer.rest}</p>}</div>
        {mayAct ? (
          <Button type="submit" look="solid" isOff={isBusy}>
            {isBusy ? "Submitting…" : quote.data?.admitted ? `Submit · ${formatCredits(quote.data.cost)}` : "Submit"}
          </Button>
        ) : (
          <p className="muted">Your key may look, not submit.</p>
        )}
        {isTried && !isWhole && <p className={styles.refused}>Some fields need another look.</p>}
      </aside>
    </form>
  );
}

function AccountField(props: { value: string; onChange: (value: string) => void; isMissing: boolean }) {
  const prefix = useSettled(props.value.trim());
  const accounts = useQuery(accountsQuery({ search: prefix || undefined, limit: 20 }));
  return (
    <Field
      label="Account to charge"
      isRequired
      error={props.isMissing ? "Say which account pays." : undefined}
      help="The job is real: it is charged and it runs."
    >
      {(parts) => (
        <>
          <input
            {...parts}
            className="field"
            list={`${parts.id}-accounts`}
            autoComplete="off"
            spellCheck={false}
            value={props.value}
            onChange={(event) => props.onChange(event.target.value)}
          />
          <datalist id={`${parts.id}-accounts`}>
            {accounts.data?.items.map((account) => (
              <option key={account.id} value={account.id}>
                {`${account.plan}, ${formatCredits(account.balance)}`}
              </option>
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

interface QuoteViewProps {
  quote: Schemas["Quote"] | undefined;
  isWorking: boolean;
  hint: string | undefined;
}

function QuoteView({ quote, isWorking, hint }: QuoteViewProps) {
  if (!quote) return <p className="muted">{hint ?? (isWorking ? "Asking for the price…" : "")}</p>;
  return (
    <div className={styles.quote} aria-busy={isWorking}>
      <p className={styles.cost}>
        <Money credits={quote.cost} />
        {quote.jobs > 1 && <span className="muted"> as {plural(quote.jobs, "job")}</span>}
      </p>
      {quote.admitted ? (
        <>
          {quote.new_balance !== null && <p>{formatCredits(quote.new_balance)} would be left.</p>}
          {quote.position !== null && (
            <p>
              Place #{quote.position}
              {quote.estimated_wait_s !== null && `, ${aboutWords(quote.estimated_wait_s)}`}.
            </p>
          )}
        </>
      ) : (
        <p className={styles.refused}>It would be refused: {quote.refusal?.message}</p>
      )}
      {[...quote.quota_warnings, quote.cost_limit_warning].filter(Boolean).map((words) => (
        <p key={words}>{words}</p>
      ))}
    </div>
  );
}
