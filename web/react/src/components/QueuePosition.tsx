import type { JobState } from "@ficha/client";
import { type Described, describe } from "../describe";
import { useBalance } from "../hooks/useBalance";
import { useNow } from "../hooks/useNow";
import { useSpoken } from "../hooks/useSpoken";
import { useWords } from "../provider";
import { Icon } from "./Icon";
import { ProgressBar } from "./ProgressBar";
import { ResultPreview } from "./ResultPreview";

export interface QueuePositionProps {
  /** What `useGenerationQueue` or `useJob` says. Null shows nothing. */
  state: JobState | null;
  onCancel?: (() => void) | undefined;
  /** Whether a cancel is under way. */
  isCancelling?: boolean | undefined;
  onRetry?: (() => void) | undefined;
  /** What is being made, as in "Making your video". */
  making?: string | undefined;
  /** Where the account's credits are listed, and where the plans are. */
  ledgerHref?: string | undefined;
  plansHref?: string | undefined;
  /** Whether results are shown here as they arrive. */
  hasResults?: boolean | undefined;
  className?: string | undefined;
}

/** A job from its place in line to its result, in words, with a bar, and spoken. */
export function QueuePosition(props: QueuePositionProps) {
  const { state, isCancelling = false, onCancel, onRetry, className } = props;
  const words = useWords();
  const told = useDescribed(state, props.making ?? words.making);
  const spoken = useSpoken(told?.spoken ?? "", told?.kind ?? "");
  const isFailure = told?.tone === "failed";
  return (
    <div className={`ficha-queue ${className ?? ""}`} data-tone={told?.tone} data-lost={told?.isLost || undefined}>
      {/* There from the beginning, and empty: what is put into them later is spoken. */}
      <p className="ficha-spoken" role="status">
        {isFailure ? "" : spoken}
      </p>
      <p className="ficha-spoken" role="alert">
        {isFailure ? spoken : ""}
      </p>
      {state && told && (
        <>
          <p className="ficha-words">
            <Icon tone={told.tone} />
            <span>{told.text}</span>
          </p>
          {told.note && <p className="ficha-note">{told.note}</p>}
          {told.bar !== undefined && <ProgressBar value={told.bar} label={words.progressLabel} />}
          {props.hasResults !== false && <Results state={state} />}
          <div className="ficha-actions">
            {told.canCancel && onCancel && (
              <button
                type="button"
                className="ficha-button"
                aria-disabled={isCancelling}
                onClick={() => !isCancelling && onCancel()}
              >
                {isCancelling ? words.cancelling : words.cancel}
              </button>
            )}
            {state.phase === "failed" && onRetry && (
              <button type="button" className="ficha-button" onClick={onRetry}>
                {words.tryAgain}
              </button>
            )}
            {state.phase === "waiting" && state.wait.reason === "account_limit" && props.plansHref && (
              <a href={props.plansHref}>{words.seePlans}</a>
            )}
            {state.job && state.job.refunded > 0 && props.ledgerHref && (
              <a href={props.ledgerHref}>{words.seeLedger}</a>
            )}
          </div>
        </>
      )}
    </div>
  );
}

function Results({ state }: { state: JobState }) {
  if (state.phase === "running") {
    return <ResultPreview value={state.partial} expected={state.partial === null ? 0 : state.job.units} />;
  }
  return state.phase === "done" ? <ResultPreview value={state.job.result} /> : null;
}

/** What is said of a state now; null for none. */
export function useDescribed(state: JobState | null, making: string): Described | null {
  const words = useWords();
  const { account, balance, isExpected, isFresh } = useBalance();
  const now = useNow(state?.phase === "running");
  if (!state) return null;
  return describe(state, {
    words,
    now,
    making,
    balance: isFresh && !isExpected ? balance : null,
    atOnce: account?.limits?.max_running ?? null,
  });
}
