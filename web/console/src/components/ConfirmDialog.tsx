import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { wordsOf } from "../services/api";
import { formatCapped, formatCredits } from "../services/format";
import { Button } from "./Button";
import styles from "./ConfirmDialog.module.css";
import { Field } from "./Field";

export interface ConfirmDialogProps {
  isOpen: boolean;
  /** What will be done, as a question: "Requeue these jobs?" */
  title: string;
  /** What the button does: "Requeue 203 jobs". Never "OK". */
  confirm: string;
  /** More about it: what follows, what cannot be undone; further fields of the form. */
  children?: ReactNode;
  /** How many things it touches. */
  count?: { number: number; isExact?: boolean; one: string; many?: string };
  /** What it costs or gives, in credits, with the verb: "Requeue charges" → "Requeue charges 812 credits". */
  money?: { verb: string; credits: number; isExact?: boolean };
  /** Whether a reason is asked for. It goes to the audit log. */
  reason?: "none" | "optional" | "required";
  /** For acts that cannot be undone: the word that must be typed first. */
  typed?: string;
  isDangerous?: boolean;
  /** Why it cannot be confirmed yet, from fields among the children. */
  problem?: string | undefined;
  /** The dialog waits for it; when it throws, the dialog stays open and says why. */
  onConfirm: (reason: string) => unknown;
  onClose: () => void;
}

/** Asks first. A native modal dialog: Escape closes, focus stays inside and returns. One press acts once. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { isOpen } = props;
  useEffect(() => {
    const element = dialog.current;
    if (!element) return;
    if (isOpen && !element.open) element.showModal();
    if (!isOpen && element.open) element.close();
  }, [isOpen]);
  const titleId = useId();
  // In the body of the page: a dialog of a button in a table must not inherit the looks of its cell.
  return createPortal(
    <dialog
      ref={dialog}
      className={styles.dialog}
      aria-labelledby={titleId}
      onClose={() => isOpen && props.onClose()}
      onClick={(event) => event.target === dialog.current && props.onClose()}
    >
      {isOpen && <Body {...props} titleId={titleId} />}
    </dialog>,
    document.body,
  );
}

function Body(props: ConfirmDialogProps & { titleId: string }) {
  const { reason: wants = "none", typed, count, money } = props;
  const [reason, setReason] = useState("");
  const [word, setWord] = useState("");
  const [isTried, setTried] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const acts = useRef(false);

  const noReason =
    wants === "required" && reason.trim() === "" ? "Say why: the reason goes to the audit log." : undefined;
  const noWord = typed !== undefined && word.trim() !== typed ? `Type ${typed} to confirm.` : undefined;

  async function submit(event: FormEvent) {
    event.preventDefault();
    setTried(true);
    if (noReason || noWord || props.problem || acts.current) return;
    acts.current = true;
    setBusy(true);
    setFailure(undefined);
    try {
      await props.onConfirm(reason.trim());
      props.onClose();
    } catch (error) {
      setFailure(wordsOf(error));
    } finally {
      acts.current = false;
      setBusy(false);
    }
  }

  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      <h2 id={props.titleId} className={styles.title}>
        {props.title}
      </h2>
      {(count || money) && (
        <p className={styles.facts}>
          {count && (
            <span>
              {formatCapped(count.number, count.isExact ?? true)}{" "}
              {count.number === 1 ? count.one : (count.many ?? `${count.one}s`)}
            </span>
          )}
          {money && (
            <strong>
              {money.verb} {money.isExact === false && "at least "}
              {formatCredits(money.credits)}
            </strong>
          )}
        </p>
      )}
      {props.children}
      {wants !== "none" && (
        <Field
          label="Reason"
          isRequired={wants === "required"}
          help="Kept in the audit log."
          error={isTried ? noReason : undefined}
        >
          {(parts) => (
            <input
              {...parts}
              className="field"
              value={reason}
              maxLength={500}
              onChange={(e) => setReason(e.target.value)}
            />
          )}
        </Field>
      )}
      {typed !== undefined && (
        <Field label={`Type “${typed}” to confirm`} isRequired error={isTried ? noWord : undefined}>
          {(parts) => (
            <input
              {...parts}
              className="field"
              value={word}
              autoComplete="off"
              spellCheck={false}
              onChange={(e) => setWord(e.target.value)}
            />
          )}
        </Field>
      )}
      <div role="alert">
        {failure && <p className={styles.failure}>{failure}</p>}
        {!failure && isTried && props.problem && <p className={styles.failure}>{props.problem}</p>}
      </div>
      <div className={styles.buttons}>
        <Button onClick={props.onClose}>Keep as it is</Button>
        <Button type="submit" look={props.isDangerous ? "danger" : "solid"} isOff={isBusy}>
          {isBusy ? "Working…" : props.confirm}
        </Button>
      </div>
    </form>
  );
}
