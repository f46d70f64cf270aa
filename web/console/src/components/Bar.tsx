import { formatCount } from "../services/format";
import styles from "./Bar.module.css";
import type { Hue } from "./state-words";

export interface BarPart {
  label: string;
  value: number;
  hue: Hue;
  /** Drawn with stripes: tells apart two parts of one hue. */
  isStriped?: boolean;
}

export interface BarProps {
  /** What is divided, for screen readers: "Jobs by status". */
  label: string;
  parts: readonly BarPart[];
  /** The whole; the sum of the parts unless told. What is left stays empty. */
  total?: number;
  /** Shows each part's number and word below. */
  withWords?: boolean;
}

/** A bar in parts: a batch by status, usage against a limit, running against slots. */
export function Bar({ label, parts, total, withWords = false }: BarProps) {
  const sum = parts.reduce((all, part) => all + part.value, 0);
  const whole = Math.max(total ?? sum, sum, 1);
  const shown = parts.filter((part) => part.value > 0);
  const spoken = `${label}: ${shown.map((part) => `${formatCount(part.value)} ${part.label}`).join(", ") || "none"}${
    total === undefined ? "" : ` of ${formatCount(total)}`
  }`;
  return (
    <div className={styles.whole}>
      <div className={styles.bar} role="img" aria-label={spoken} title={spoken}>
        {shown.map((part) => (
          <span
            key={part.label}
            className={`${styles[part.hue]} ${part.isStriped ? styles.striped : ""}`}
            style={{ width: `${(100 * part.value) / whole}%` }}
          />
        ))}
      </div>
      {withWords && (
        <div className={styles.words} aria-hidden="true">
          {shown.map((part) => (
            <span key={part.label} className={styles.word}>
              <i className={`${styles[part.hue]} ${part.isStriped ? styles.striped : ""}`} />
              {formatCount(part.value)} {part.label}
            </span>
          ))}
        </div>
      )}
    </div>
  );
}
