import { type ReactNode, useEffect, useId, useRef } from "react";
import { useWords } from "../words";
import styles from "./Dialog.module.css";
import { Icon } from "./Icon";

interface Props {
  title: string;
  look?: "middle" | "side" | "wide";
  onClose: () => void;
  children: ReactNode;
}

/** The browser's own dialog: it keeps the focus inside, closes with Escape, and gives the focus back. */
export function Dialog({ title, look = "middle", onClose, children }: Props) {
  const words = useWords();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    if (shown && !shown.open) shown.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`${styles.dialog} ${styles[look]}`}
      aria-labelledby={id}
      onClose={onClose}
      onPointerDown={(event) => {
        if (event.target === event.currentTarget) event.currentTarget.close();
      }}
    >
      <div className={styles.inside}>
        <header className={styles.head}>
          <h2 id={id} className={styles.title}>
            {title}
          </h2>
          <button
            type="button"
            className={styles.close}
            aria-label={words.close}
            onClick={() => dialog.current?.close()}
          >
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
