import { useSyncExternalStore } from "react";
import { wordsOf } from "../services/api";
import { Icon } from "./Icon";
import styles from "./Toast.module.css";

interface Note {
  id: number;
  kind: "said" | "failed";
  text: string;
}

const SHOWN_MS = 6000;
let notes: readonly Note[] = [];
let last = 0;
const listeners = new Set<() => void>();

function change(next: readonly Note[]) {
  notes = next;
  for (const listener of listeners) listener();
}

function add(kind: Note["kind"], text: string) {
  last += 1;
  const id = last;
  change([...notes.slice(-2), { id, kind, text }]);
  // A failure stays until it is closed.
  if (kind === "said") setTimeout(() => dismiss(id), SHOWN_MS);
}

function dismiss(id: number) {
  change(notes.filter((note) => note.id !== id));
}

/** `toast.say("Pool gpu is paused.")` after an act; `toast.fail(error)` when one failed outside a dialog. */
export const toast = {
  say: (text: string) => add("said", text),
  fail: (error: unknown) => add("failed", wordsOf(error)),
};

/** The page's one status region, empty at load. The layout places it once. */
export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notes,
  );
  const draw = (kind: Note["kind"]) =>
    shown
      .filter((note) => note.kind === kind)
      .map((note) => (
        <div key={note.id} className={`${styles.note} ${styles[kind]}`}>
          <Icon name={kind === "failed" ? "dead" : "check"} />
          <span className={styles.text}>{note.text}</span>
          <button type="button" className={styles.close} aria-label="Close message" onClick={() => dismiss(note.id)}>
            <Icon name="close" />
          </button>
        </div>
      ));
  return (
    <div className={styles.region}>
      <div role="status">{draw("said")}</div>
      <div role="alert">{draw("failed")}</div>
    </div>
  );
}
