import { type ReactNode, useState } from "react";
import { useWords } from "../words";
import styles from "./Compare.module.css";

/**
 * Two pictures over each other, with a handle between them. It is a slider: the pointer drags it anywhere, and the arrow
 * keys, Home and End move it.
 */
export function Compare({ before, after }: { before: ReactNode; after: ReactNode }) {
  const words = useWords();
  const [at, setAt] = useState(50);
  return (
    <div className={styles.frame} style={{ "--at": `${at}%` } as React.CSSProperties}>
      <div className={styles.after}>{after}</div>
      <div className={styles.before}>{before}</div>
      <span className={styles.leftLabel} aria-hidden="true">
        {words.before}
      </span>
      <span className={styles.rightLabel} aria-hidden="true">
        {words.after}
      </span>
      <div className={styles.line} aria-hidden="true">
        <span className={styles.handle} />
      </div>
      <input
        className={styles.range}
        type="range"
        min={0}
        max={100}
        value={at}
        aria-label={words.compare}
        aria-valuetext={words.beforeShare(at)}
        onChange={(event) => setAt(event.target.valueAsNumber)}
      />
    </div>
  );
}
