import type { JobState } from "@ficha/client";
import type { ReactNode } from "react";
import { useWords } from "../words";
import { Icon } from "./Icon";
import styles from "./Ticket.module.css";

/**
 * The job as a ticket: its place in line, then how far it is, then how it ended. The words are the children, which are
 * there before the job is: what is spoken has to be put into something that was there.
 */
export function Ticket({ state, children }: { state: JobState | null; children: ReactNode }) {
  const words = useWords();
  const look = state ? `${styles.ticket} ${styles[state.phase]}` : styles.none;
  return (
    <section className={look} aria-label={words.yourTicket}>
      <div className={styles.stub} aria-hidden="true">
        {state && <Stub state={state} />}
      </div>
      <div className={styles.body}>{children}</div>
    </section>
  );
}

function Stub({ state }: { state: JobState }) {
  switch (state.phase) {
    case "uploading":
      return state.upload.total > 0 ? (
        <Count value={Math.round(state.upload.share * 100)} unit="%" />
      ) : (
        <Icon name="ticket" size={44} />
      );
    case "waiting":
      return state.wait.position === null ? (
        <Icon name="ticket" size={44} />
      ) : (
        <Count value={state.wait.position} sign="#" />
      );
    case "running":
      return state.progress === null ? <span className={styles.ring} /> : <Count value={state.progress} unit="%" />;
    case "done":
      return <Icon name="check" size={52} />;
    case "failed":
      return <Icon name="bang" size={52} />;
    case "cancelled":
      return <Icon name="close" size={48} />;
  }
}

function Count({ value, sign, unit }: { value: number; sign?: string; unit?: string }) {
  return (
    <span className={sign ? styles.place : styles.number} key={sign ? value : "share"}>
      {sign && <small>{sign}</small>}
      {value}
      {unit && <small>{unit}</small>}
    </span>
  );
}
