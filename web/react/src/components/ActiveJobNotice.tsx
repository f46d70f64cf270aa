import { hasEnded, type Job } from "@ficha/client";
import { useGenerationQueue } from "../hooks/useGenerationQueue";
import { useJob } from "../hooks/useJob";
import { useProcessingButton } from "../hooks/useProcessingButton";
import { useSpoken } from "../hooks/useSpoken";
import { useFicha, useWords } from "../provider";
import { Icon } from "./Icon";
import { useDescribed } from "./QueuePosition";

export interface ActiveJobNoticeProps {
  session?: string | undefined;
  /** What "Show it" does; it is shown by this visit's `useGenerationQueue` if there is none. */
  onShow?: ((job: Job) => void) | undefined;
  /** How a tool is called; its name if there is none. */
  nameOf?: ((tool: string) => string) | undefined;
  /** What a tool makes, as in "Making your video"; the words of a picture where there is none. */
  makingOf?: ((tool: string) => string | undefined) | undefined;
  className?: string | undefined;
}

/** Says that the account has another job under way: of an earlier visit, or in another window. */
export function ActiveJobNotice(props: ActiveJobNoticeProps) {
  const { session, onShow, nameOf = (tool) => tool, makingOf, className } = props;
  const words = useWords();
  const client = useFicha();
  const { active, show } = useGenerationQueue({ session });
  const { state } = useJob(active?.id ?? null);
  const told = useDescribed(state, (active && makingOf?.(active.tool)) ?? words.making);
  const cancel = useProcessingButton(async () => {
    if (active) await client.cancelJob(active.id).catch(() => {});
  });
  const isShown = active !== null && !(state && hasEnded(state));
  const title = active ? words.activeJob(nameOf(active.tool)) : "";
  const spoken = useSpoken(isShown ? title : "", isShown ? "active" : "");
  return (
    <div className="ficha-notice-place">
      {/* There from the beginning, and empty: what is put into it later is spoken. */}
      <p className="ficha-spoken" role="status">
        {spoken}
      </p>
      {isShown && (
        <div className={`ficha-notice ${className ?? ""}`} data-tone={told?.tone}>
          <p className="ficha-words">
            <Icon tone={told?.tone ?? "waiting"} />
            <span>{title}</span>
          </p>
          {told && <p className="ficha-note">{told.text}</p>}
          <div className="ficha-actions">
            <button type="button" className="ficha-button" onClick={() => (onShow ?? show)(active)}>
              {words.show}
            </button>
            <button type="button" className="ficha-button" {...cancel.props}>
              {cancel.isBusy ? words.cancelling : words.cancel}
            </button>
          </div>
        </div>
      )}
    </div>
  );
}
