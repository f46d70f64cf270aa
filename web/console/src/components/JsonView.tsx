import { type ReactNode, useState } from "react";
import { exactText, isSecretName, MASK, writeJson } from "../services/exact-json";
import { plural } from "../services/format";
import { CopyText } from "./CopyText";
import styles from "./JsonView.module.css";

export interface JsonViewProps {
  /** The object of an answer that holds the value, as `parseJson` gave it: it knows its numbers as they were sent. */
  of: object;
  /** The field of that object to show. */
  field: string;
  /** What it is, for the copy button and screen readers: "payload". */
  label: string;
  /** How many levels are open at first; 2 unless told, 0 closes all. */
  open?: number;
}

const PAGE = 100;

/** JSON as a tree: numbers exactly as they were sent, long lists in pages, fields that hold secrets masked. */
export function JsonView({ of, field, label, open = 2 }: JsonViewProps) {
  const value = (of as Record<string, unknown>)[field];
  if (value === undefined) return <p className={styles.none}>No {label}.</p>;
  return (
    <div className={styles.view}>
      <div className={styles.copy}>
        <CopyText text={writeJson(of, field, value)} shown="" what={label} />
      </div>
      <div className={styles.tree}>
        <Value holder={of} field={field} value={value} depth={0} open={open} />
      </div>
    </div>
  );
}

interface ValueProps {
  holder: object;
  /** The field's name, or the index in a list. */
  field: string;
  value: unknown;
  depth: number;
  open: number;
}

function Value({ holder, field, value, depth, open }: ValueProps) {
  const isNamed = depth > 0 && !Array.isArray(holder);
  const before = isNamed && <span className={styles.name}>{field}: </span>;
  if (isNamed && isSecretName(field) && value !== null) {
    return (
      <Line before={before}>
        <span className={styles.masked} title="Hidden: its name says that it is a secret">
          {MASK}
        </span>
      </Line>
    );
  }
  if (value !== null && typeof value === "object") {
    return <Branch value={value} depth={depth} open={open} before={before} />;
  }
  const text = typeof value === "number" ? exactText(holder, field, value) : JSON.stringify(value);
  const look = typeof value === "number" ? styles.number : typeof value === "string" ? styles.string : styles.word;
  return (
    <Line before={before}>
      <span className={look}>{text}</span>
    </Line>
  );
}

function Line({ before, children }: { before: ReactNode; children: ReactNode }) {
  return (
    <div className={styles.line}>
      {before}
      {children}
    </div>
  );
}

function Branch({ value, depth, open, before }: { value: object; depth: number; open: number; before: ReactNode }) {
  const [isOpen, setOpen] = useState(depth < open);
  const [shown, setShown] = useState(PAGE);
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const [left, right] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    return (
      <Line before={before}>
        <span className={styles.word}>{left + right}</span>
      </Line>
    );
  }
  return (
    <details
      open={isOpen}
      onToggle={(event) => {
        if (event.target === event.currentTarget) setOpen(event.currentTarget.open);
      }}
    >
      <summary className={styles.summary}>
        {before}
        <span className={styles.word}>{isOpen ? left : `${left} … ${right}`}</span>{" "}
        <span className={styles.size}>{plural(entries.length, isList ? "item" : "field")}</span>
      </summary>
      {isOpen && (
        <div className={styles.inner}>
          {entries.slice(0, shown).map(([name, item]) => (
            <Value key={name} holder={value} field={name} value={item} depth={depth + 1} open={open} />
          ))}
          {entries.length > shown && (
            <button type="button" className={styles.more} onClick={() => setShown(shown + PAGE * 10)}>
              {plural(entries.length - shown, "more", "more")}
            </button>
          )}
          <span className={styles.word}>{right}</span>
        </div>
      )}
    </details>
  );
}
