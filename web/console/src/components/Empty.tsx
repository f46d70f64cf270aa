import type { ReactNode } from "react";
import styles from "./Empty.module.css";

export interface EmptyProps {
  /** What is not there: "No dead letters." */
  title: string;
  /** What to do, or why that is good. */
  children?: ReactNode;
}

export function Empty({ title, children }: EmptyProps) {
  return (
    <div className={styles.empty}>
      <p className={styles.title}>{title}</p>
      {children !== undefined && <div className={styles.more}>{children}</div>}
    </div>
  );
}
