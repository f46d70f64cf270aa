import type { RefObject } from "react";
import { CHORD, setLetters, useLetters } from "../hooks/useKeys";
import { PAGES } from "../pages";
import styles from "./Help.module.css";
import { Icon } from "./Icon";

/** Which key does what. The caller opens the dialog. */
export function Help({ dialog }: { dialog: RefObject<HTMLDialogElement | null> }) {
  const isOn = useLetters();
  const keys: [string, string][] = [
    [CHORD, "Go to a page, a job or an account"],
    ["/", "Search"],
    ["?", "This help"],
    ...PAGES.map((page): [string, string] => [page.key, page.title]),
    ["↑ ↓", "Move between the rows of a table"],
    ["Enter", "Open the row"],
    ["Space", "Choose the row"],
  ];
  return (
    <dialog ref={dialog} aria-labelledby="help-title" className={styles.help}>
      <div className={styles.head}>
        <h2 id="help-title">Keyboard shortcuts</h2>
        <button type="button" className="button plain icon" aria-label="Close" onClick={() => dialog.current?.close()}>
          <Icon name="close" />
        </button>
      </div>
      <dl className={styles.keys}>
        {keys.map(([key, words]) => (
          <div key={key + words}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
      <label className={styles.switch}>
        <input type="checkbox" checked={isOn} onChange={(event) => setLetters(event.target.checked)} />
        Single keys are on
      </label>
      <p className="muted">
        Times are in your zone, {Intl.DateTimeFormat().resolvedOptions().timeZone}; hold the pointer over one to see
        UTC.
      </p>
    </dialog>
  );
}
