import { setPaused, usePaused } from "../hooks/useLive";
import { Icon } from "./Icon";
import styles from "./LiveNote.module.css";

interface LiveNoteProps {
  /** When the answer came, in ms since 1970 (`dataUpdatedAt` of a query). */
  at: number;
  /** The last question failed: what is shown is old. */
  isFailing?: boolean;
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/** "as of 14:05:09", and the button that stops a page from changing under the reader. */
export function LiveNote({ at, isFailing = false }: LiveNoteProps) {
  const isPaused = usePaused();
  return (
    <div className={styles.note}>
      {at > 0 && (
        <span className={isFailing ? styles.failing : styles.time}>
          {isFailing && "Not reached; "}as of <time dateTime={new Date(at).toISOString()}>{clock.format(at)}</time>
        </span>
      )}
      <button type="button" className="button plain" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
        <Icon name={isPaused ? "play" : "pause"} />
        {isPaused ? "Resume" : "Pause"}
      </button>
    </div>
  );
}
