import type { ReactNode } from "react";
import styles from "./Tabs.module.css";

/** Links to parts of a page; each has an address of its own. Give the present one `aria-current="page"`. */
export function Tabs({ label, children }: { label: string; children: ReactNode }) {
  return (
    <nav className={styles.tabs} aria-label={label}>
      {children}
    </nav>
  );
}
