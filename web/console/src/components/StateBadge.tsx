import { Icon } from "./Icon";
import styles from "./StateBadge.module.css";
import { lookOf } from "./state-words";

export interface StateBadgeProps {
  /** A job's status, or another word of `state-words.ts` ("alive", "paused", "breaker open", …). */
  state: string;
  /** Says more after the word: "Failed · attempt 3 of 3". */
  note?: string;
}

export function StateBadge({ state, note }: StateBadgeProps) {
  const look = lookOf(state);
  return (
    <span className={`${styles.badge} ${styles[look.hue]}`} data-state={state}>
      <Icon name={look.icon} size={14} />
      <span>{note === undefined ? look.word : `${look.word} · ${note}`}</span>
    </span>
  );
}
