import type { Entry } from "@ficha/client";
import { useBalance, useFicha } from "@ficha/react";
import { useEffect, useId, useState } from "react";
import { useProblemWords } from "../hooks/useProblemWords";
import { buy, type Demo, type Pack, type Payment, pay } from "../services/door";
import { useLocale, useWords } from "../words";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import styles from "./TopUp.module.css";

type Step =
  | { at: "choosing" }
  | { at: "paying" }
  | { at: "paid"; payment: Payment }
  | { at: "declined"; payment: Payment }
  | { at: "failed"; words: string };

/** Buys credits with a payment that is simulated, and shows where credits went. */
export function TopUp({ demo, onClose }: { demo: Demo; onClose: () => void }) {
  const words = useWords();
  const locale = useLocale();
  const client = useFicha();
  const { refresh } = useBalance();
  const wordsOf = useProblemWords();
  const id = useId();
  const [pack, setPack] = useState<Pack | undefined>(demo.packs[1] ?? demo.packs[0]);
  const [card, setCard] = useState(demo.cards.good);
  const [step, setStep] = useState<Step>({ at: "choosing" });
  const price = (cents: number) =>
    new Intl.NumberFormat(locale, { style: "currency", currency: "USD" }).format(cents / 100);

  const charge = async () => {
    if (!pack || step.at === "paying") return;
    // A payment that was declined is tried again under the same id: however it ends, it is credited once.
    const begun = step.at === "declined" && step.payment.credits === pack.credits ? step.payment : null;
    setStep({ at: "paying" });
    try {
      const paid = await pay(client, begun ?? (await buy(client, pack.credits)), card);
      setStep({ at: paid.state === "paid" ? "paid" : "declined", payment: paid });
      refresh();
    } catch (error) {
      setStep({ at: "failed", words: wordsOf(error) });
    }
  };

  return (
    <Dialog title={words.topUpTitle} onClose={onClose}>
      {step.at === "paid" ? (
        <div className={styles.paid}>
          <p className={styles.sum} role="status">
            {words.paid(step.payment.credits, step.payment.balance ?? 0)}
          </p>
          <Button look="main" onClick={onClose}>
            {words.done}
          </Button>
        </div>
      ) : (
        <>
          <fieldset className={styles.packs}>
            <legend className="hidden">{words.topUpTitle}</legend>
            {demo.packs.map((one) => (
              <label key={one.credits} className={styles.pack}>
                <input
                  type="radio"
                  name={`${id}-pack`}
                  checked={one.credits === pack?.credits}
                  onChange={() => setPack(one)}
                />
                <span className={styles.face}>
                  <strong>{one.credits}</strong>
                  <span>{price(one.cents)}</span>
                </span>
              </label>
            ))}
          </fieldset>
          <fieldset className={styles.cards}>
            <legend className={styles.legend}>{words.card}</legend>
            {[
              [demo.cards.good, words.goodCard],
              [demo.cards.declined, words.badCard],
            ].map(([number, name]) => (
              <label key={number} className={styles.card}>
                <input
                  type="radio"
                  name={`${id}-card`}
                  checked={card === number}
                  onChange={() => setCard(number ?? "")}
                />
                <span>
                  {name}
                  <small>{number}</small>
                </span>
              </label>
            ))}
          </fieldset>
          <p className={styles.problem} role="alert">
            {step.at === "declined" ? words.declined : step.at === "failed" ? step.words : ""}
          </p>
          <Button look="main" className={styles.pay} aria-disabled={step.at === "paying"} onClick={charge}>
            {step.at === "paying" ? words.paying : words.pay(price(pack?.cents ?? 0))}
          </Button>
          <p className={styles.hint}>{words.topUpHint}</p>
        </>
      )}
      <Ledger key={step.at} />
    </Dialog>
  );
}

function Ledger() {
  const words = useWords();
  const locale = useLocale();
  const client = useFicha();
  const [entries, setEntries] = useState<Entry[]>([]);
  useEffect(() => {
    let isCurrent = true;
    client.ledger({ limit: 6 }).then(
      (page) => isCurrent && setEntries(page.items),
      () => {},
    );
    return () => {
      isCurrent = false;
    };
  }, [client]);
  if (entries.length === 0) return null;
  const time = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
  return (
    <section className={styles.ledger}>
      <h3>{words.ledger}</h3>
      <ol>
        {entries.map((entry) => (
          <li key={entry.number}>
            <time dateTime={entry.at.toISOString()}>{time.format(entry.at)}</time>
            <span>{words.kinds[entry.kind] ?? entry.kind}</span>
            <span className={entry.amount < 0 ? styles.out : styles.in}>
              {entry.amount > 0 ? "+" : "−"}
              {Math.abs(entry.amount)}
            </span>
            <span className={styles.left}>{entry.balance_after}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
