import type { ReactNode } from "react";
import styles from "./Stat.module.css";
import type { Hue } from "./state-words";

export interface StatProps {
  label: string;
  /** The figure, formatted. Wrap it in a link to its list: every number leads somewhere. */
  value: ReactNode;
  /** A line below: a unit, a limit, a change. */
  note?: ReactNode;
  hue?: Hue;
}

/** One figure with its label. Several stand in a `<StatRow>`. */
export function Stat({ label, value, note, hue }: StatProps) {
  return (
    <div className={styles.stat}>
      <dt className={styles.label}>{label}</dt>
      <dd className={`${styles.value} ${hue ? styles[hue] : ""}`}>{value}</dd>
      {note !== undefined && <dd className={styles.note}>{note}</dd>}
    </div>
  );
}

export function StatRow({ children }: { children: ReactNode }) {
  return <dl className={styles.row}>{children}</dl>;
}
