import { useRef } from "react";
import { plural } from "../services/format";
import { Button } from "./Button";
import { Icon } from "./Icon";
import styles from "./Pager.module.css";
import { back, type Cursor, forward, type Trail } from "./pager-trail";

export interface PagerProps {
  /** The present page's cursor, from the address; undefined on the first page. */
  cursor: Cursor;
  /** The next page's cursor, from the answer. */
  next: string | null;
  /** Puts a cursor into the address; undefined is the first page. */
  onGo: (cursor: Cursor) => void;
  /** How many rows this page shows, and what they are: `[50, "job"]`. */
  shown?: [count: number, one: string, many?: string];
}

export function Pager({ cursor, next, onGo, shown }: PagerProps) {
  const trail = useRef<Trail>([]);
  if (cursor === undefined && next === null) {
    return shown && shown[0] > 0 ? <p className={styles.all}>{plural(...shown)}, all shown.</p> : null;
  }
  return (
    <nav className={styles.pager} aria-label="Pages of the list">
      {shown && <span className={styles.all}>{plural(...shown)} on this page</span>}
      <Button
        isOff={cursor === undefined}
        onClick={() => {
          trail.current = [];
          onGo(undefined);
        }}
      >
        First
      </Button>
      <Button
        isOff={cursor === undefined}
        onClick={() => {
          const step = back(trail.current);
          trail.current = step.trail;
          onGo(step.to);
        }}
      >
        <Icon name="left" /> Previous
      </Button>
      <Button
        isOff={next === null}
        onClick={() => {
          if (next === null) return;
          trail.current = forward(trail.current, cursor);
          onGo(next);
        }}
      >
        Next <Icon name="right" />
      </Button>
    </nav>
  );
}
