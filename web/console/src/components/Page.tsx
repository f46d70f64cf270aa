import { type ReactNode, useEffect } from "react";
import styles from "./Page.module.css";

interface PageProps {
  title: string;
  /** Shown in the tab instead of `title`, where a page is about one thing: "upscale of ana". */
  tabTitle?: string;
  /** One line below the title: which question the page answers. */
  lead?: ReactNode;
  /** Buttons, and the note that says how old the page is. */
  actions?: ReactNode;
  children: ReactNode;
}

/** The head of every page: its one h1, its title in the tab, its acts on the right. */
export function Page({ title, tabTitle, lead, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${tabTitle ?? title} · Ficha`;
  }, [title, tabTitle]);
  return (
    <div className={styles.page}>
      <div className={styles.head}>
        <div className={styles.words}>
          <h1>{title}</h1>
          {lead && <p className={styles.lead}>{lead}</p>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </div>
      {children}
    </div>
  );
}
