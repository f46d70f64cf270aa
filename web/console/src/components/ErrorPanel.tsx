import { wordsOf } from "../services/api";
import { Button } from "./Button";
import styles from "./ErrorPanel.module.css";
import { Icon } from "./Icon";

export interface ErrorPanelProps {
  error: unknown;
  /** What could not be loaded: "workers". */
  what: string;
  onRetry?: () => void;
  isRetrying?: boolean;
  /** Old data stands below, greyed. */
  hasOld?: boolean;
}

export function ErrorPanel({ error, what, onRetry, isRetrying = false, hasOld = false }: ErrorPanelProps) {
  return (
    <div role="alert" className={styles.panel}>
      <Icon name="dead" size={18} />
      <div className={styles.text}>
        <strong>{hasOld ? `Could not refresh ${what}. What stands below is old.` : `Could not load ${what}.`}</strong>
        <p>{wordsOf(error)}</p>
      </div>
      {onRetry && (
        <Button onClick={onRetry} isOff={isRetrying}>
          <Icon name="refresh" />
          {isRetrying ? "Trying…" : "Try again"}
        </Button>
      )}
    </div>
  );
}
