import { FichaError, hasEnded, type JobState, type Payload, type Quote, type Tool } from "@ficha/client";
import {
  ActiveJobNotice,
  type GenerationQueue,
  QueuePosition,
  useBalance,
  useWords as useProblems,
  useProcessingButton,
  useTools,
} from "@ficha/react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { usePaste } from "../hooks/usePaste";
import { useQuote } from "../hooks/useQuote";
import type { Demo } from "../services/door";
import { askedIn, type Field, fieldsOf, filesIn, inOrder, inputsIn, suitable } from "../services/tools";
import { useWords } from "../words";
import { Button } from "./Button";
import styles from "./Create.module.css";
import { Icon } from "./Icon";
import { Options } from "./Options";
import { PictureSlot } from "./PictureSlot";
import { Results } from "./Results";
import { LocalPicture, StoredPicture } from "./StoredPicture";
import { Ticket } from "./Ticket";
import { ToolRail } from "./ToolRail";

type Draft = Record<string, unknown>;

interface Props {
  demo: Demo;
  queue: GenerationQueue;
  session: string;
  onTopUp: () => void;
}

/** Pick a tool, give it a picture, see the price, submit, stand in line, get the result. */
export function Create({ demo, queue, session, onTopUp }: Props) {
  const { tools } = useTools();
  const ordered = useMemo(() => inOrder(tools ?? []), [tools]);
  const [chosen, setChosen] = useState("image_upscaler");
  // A job that was found again belongs to a tool, which is shown with it.
  const [shownJob, setShownJob] = useState<string | null>(null);
  const running = queue.state?.job ?? null;
  useEffect(() => {
    if (running && running.id !== shownJob) {
      setShownJob(running.id);
      setChosen(running.tool);
    }
  }, [running, shownJob]);
  const [sent, setSent] = useState<string | null>(null);
  const [drafts, setDrafts] = useState<Record<string, Draft>>({});
  const tool = ordered.find((one) => one.name === chosen) ?? ordered[0];
  const change = (name: string, value: unknown) =>
    setDrafts((all) => ({ ...all, [chosen]: { ...all[chosen], [name]: value } }));
  return (
    <main className={styles.desk}>
      <ToolRail tools={ordered} chosen={tool?.name ?? ""} onChoose={setChosen} />
      {tool && (
        <Bench
          key={tool.name}
          tool={tool}
          demo={demo}
          queue={queue}
          session={session}
          draft={drafts[tool.name] ?? {}}
          isSent={sent === tool.name}
          onSend={() => setSent(tool.name)}
          onChange={change}
          onTopUp={onTopUp}
        />
      )}
    </main>
  );
}

interface BenchProps extends Props {
  tool: Tool;
  draft: Draft;
  /** Whether what is being sent is for this tool. */
  isSent: boolean;
  onChange: (name: string, value: unknown) => void;
  onSend: () => void;
}

function Bench({ tool, demo, queue, session, draft, isSent, onChange, onSend, onTopUp }: BenchProps) {
  const words = useWords();
  const fields = useMemo(() => fieldsOf(tool), [tool]);
  const pictures = fields.filter((field) => field.kind === "file");
  const options = fields.filter((field) => field.kind !== "file");
  const isClip = pictures.some(isClipField);
  const missing = isClip ? words.chooseClip : pictures.length > 0 ? words.choosePicture : words.sayPrompt;
  const payload = useMemo(() => payloadOf(fields, draft), [fields, draft]);
  const [title, about] = words.toolNames[tool.name] ?? [tool.name, tool.description ?? ""];
  // A job of another tool is shown there. While files are sent, there is none yet.
  const { state: current } = queue;
  const state = current && (current.job ? current.job.tool === tool.name : isSent) ? current : null;
  const isEnded = state !== null && hasEnded(state);
  const isShown = state !== null && (!isEnded || state.phase === "done");
  const empty = pictures.find((field) => !(draft[field.name] instanceof File)) ?? pictures[0];
  usePaste(isShown || !empty ? null : (file) => onChange(empty.name, file));
  const stage = useRef<HTMLElement>(null);
  const submit = async (cost?: number) => {
    if (!payload) return;
    onSend();
    // On a phone the button is far below the ticket.
    stage.current?.scrollIntoView({ block: "nearest" });
    await queue.submit(tool.name, payload, { cost });
  };

  return (
    <>
      <section className={styles.stage} aria-label={title} ref={stage}>
        <header className={styles.head}>
          <h1>{title}</h1>
          <p>{about}</p>
        </header>
        <ActiveJobNotice
          session={session}
          nameOf={(name) => words.toolNames[name]?.[0] ?? name}
          makingOf={(name) => (name === "video_upscaler" ? words.makingClip : undefined)}
        />
        <Ticket state={state}>
          <QueuePosition
            state={state}
            isCancelling={queue.isCancelling}
            onCancel={queue.cancel}
            onRetry={payload ? () => submit() : undefined}
            hasResults={false}
            making={isClip ? words.makingClip : (state?.job?.units ?? 1) > 1 ? words.makingPictures : undefined}
          />
          {isEnded && (state.phase !== "failed" || !payload) && (
            <div className={styles.after}>
              <Button onClick={queue.clear}>{words.newOne}</Button>
            </div>
          )}
        </Ticket>
        {isShown ? (
          <Work state={state} fields={fields} draft={draft} />
        ) : (
          <div className={pictures.length > 1 ? styles.two : styles.one}>
            {pictures.length === 0 && <Blank prompt={String(draft.prompt ?? "")} />}
            {pictures.map((field) => (
              <PictureSlot
                key={field.name}
                label={words.fields[field.name] ?? field.title}
                file={draft[field.name] instanceof File ? (draft[field.name] as File) : null}
                isClip={isClipField(field)}
                samples={suitable(tool.name, field.name).flatMap((kind) =>
                  demo.samples.filter((sample) => sample.kind === kind),
                )}
                onChoose={(file) => onChange(field.name, file)}
              />
            ))}
          </div>
        )}
      </section>
      <Order
        tool={tool}
        options={options}
        draft={draft}
        payload={payload}
        queue={queue}
        onChange={onChange}
        onTopUp={onTopUp}
        onSubmit={submit}
        missing={payload ? null : missing}
      />
    </>
  );
}

const isClipField = (field: Field): boolean => field.name === "video";

/** The payload, once all that is required is there; null before. */
function payloadOf(fields: Field[], draft: Draft): Payload | null {
  const payload: Draft = {};
  for (const field of fields) {
    const value = draft[field.name] ?? field.initial;
    const isThere = value !== undefined && value !== null && String(value).trim() !== "";
    if (!isThere && field.isRequired) return null;
    if (isThere) payload[field.name] = value;
  }
  return payload;
}

/** Where words become a picture. */
function Blank({ prompt }: { prompt: string }) {
  const words = useWords();
  return (
    <div className={styles.blank}>
      <Icon name="freestyle" size={34} />
      <p className={styles.blankTitle}>{prompt ? `“${prompt}”` : words.wordsOnly}</p>
      {!prompt && <p>{words.wordsHint}</p>}
    </div>
  );
}

/** What a job works on, and what it has made. */
function Work({ state, fields, draft }: { state: JobState; fields: Field[]; draft: Draft }) {
  const words = useWords();
  const job = state.job;
  const inputs = job ? inputsIn(job.payload, fields) : [];
  const files = filesIn(state.phase === "running" ? state.partial : job?.result);
  const [first] = inputs;
  const local = fields.map((field) => draft[field.name]).filter((value): value is File => value instanceof File);
  const isUpscale = job?.tool.includes("upscaler") ?? false;
  const before: ReactNode = first ? <StoredPicture file={first.file} alt={words.before} sharp={isUpscale} /> : null;
  if (files.length > 0) {
    return <Results files={files} of={job?.units ?? 1} before={before} isDone={state.phase === "done"} />;
  }
  if (state.phase === "done") return null;
  if (inputs.length === 0 && local.length === 0)
    return <Blank prompt={String((job ? askedIn(job.payload) : draft).prompt ?? "")} />;
  return (
    <div className={Math.max(inputs.length, local.length) > 1 ? styles.two : styles.one}>
      {local.length > 0
        ? local.map((file) => (
            <figure key={file.name} className={styles.input}>
              <LocalPicture file={file} />
            </figure>
          ))
        : inputs.map((input) => (
            <figure key={input.field} className={styles.input}>
              <StoredPicture file={input.file} alt={words.fields[input.field] ?? input.field} />
            </figure>
          ))}
    </div>
  );
}

/** Refusals that a quote foresees. */
const QUOTED = new Set(["INSUFFICIENT_CREDITS", "ACTIVE_JOB_EXISTS", "QUOTA_EXCEEDED", "COST_LIMIT", "PROVIDER_DOWN"]);

/** What a submit would be refused with, as if it had been. */
function asError(refusal: NonNullable<Quote["refusal"]>): FichaError {
  const { code, message, retry_after_s, details } = refusal;
  return new FichaError(422, { ...details, code, detail: message }, retry_after_s ?? undefined);
}

interface OrderProps {
  tool: Tool;
  options: Field[];
  draft: Draft;
  payload: Payload | null;
  queue: GenerationQueue;
  missing: string | null;
  onSubmit: (cost?: number) => Promise<void>;
  onChange: (name: string, value: unknown) => void;
  onTopUp: () => void;
}

/** The options, the price, and the button. */
function Order({ tool, options, draft, payload, queue, missing, onChange, onTopUp, onSubmit }: OrderProps) {
  const words = useWords();
  const problems = useProblems();
  const { balance } = useBalance();
  const quote = useQuote(tool.name, payload, `${balance} ${queue.isBusy}`);
  const button = useProcessingButton(async () => {
    if (!isOff) await onSubmit(quote?.cost);
  });
  const refusal = quote?.refusal ?? null;
  const isPoor = refusal?.code === "INSUFFICIENT_CREDITS";
  // Why the last submit was refused; not what a quote has since taken back.
  const problem = queue.error && !(quote && QUOTED.has(queue.error.code) && !refusal) && !isPoor ? queue.error : null;
  const isOff = !payload || queue.isBusy || refusal !== null;
  const isAdmitted = quote !== null && refusal === null && !queue.isBusy;
  const ahead = quote?.position ? quote.position - 1 : null;
  return (
    <aside className={styles.order}>
      {options.length > 0 && <Options tool={tool.name} fields={options} values={draft} onChange={onChange} />}
      <div className={styles.pay}>
        <div className={styles.facts}>
          {missing && !queue.isBusy && <p>{missing}</p>}
          {isAdmitted && balance !== null && <p>{words.balanceAfter(balance - quote.cost)}</p>}
          {isAdmitted && ahead !== null && <p>{words.ahead(ahead)}</p>}
          {isPoor && quote && <p>{words.refusals.INSUFFICIENT_CREDITS(quote.balance, quote.cost)}</p>}
          {refusal && !isPoor && refusal.code !== problem?.code && <p>{problems.refused(asError(refusal))}</p>}
          <p className={styles.problem} role="alert">
            {problem && problems.refused(problem)}
          </p>
        </div>
        {isPoor ? (
          <Button look="main" className={styles.go} onClick={onTopUp}>
            {words.topUp}
          </Button>
        ) : (
          <Button look="main" {...button.props} className={styles.go} aria-disabled={isOff || button.isBusy}>
            {quote && payload ? words.generateFor(quote.cost) : words.generate}
          </Button>
        )}
      </div>
    </aside>
  );
}
