import { formatCount, formatDecimal } from "../services/format";
import styles from "./Money.module.css";

export interface MoneyProps {
  credits: number;
  /** Shows a plus before a gain. */
  withSign?: boolean;
  /** Leaves the word "credits" to a column's head; it stays in the title. */
  isBare?: boolean;
}

/** Whole credits, in tabular figures. */
export function Money({ credits, withSign = false, isBare = false }: MoneyProps) {
  const sign = credits < 0 ? "−" : withSign && credits > 0 ? "+" : "";
  const unit = Math.abs(credits) === 1 ? "credit" : "credits";
  const text = `${sign}${formatCount(Math.abs(credits))}`;
  return (
    <span className={styles.money} title={isBare ? `${text} ${unit}` : undefined}>
      {text}
      {!isBare && ` ${unit}`}
    </span>
  );
}

/** What providers took: decimals in the currency that the handlers reported. */
export function Cost({ amount }: { amount: number | null }) {
  return <span className={styles.money}>{amount === null ? "–" : formatDecimal(amount)}</span>;
}
