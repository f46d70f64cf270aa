import type { Demo } from "../services/door";
import { useWords } from "../words";
import styles from "./Door.module.css";
import { Icon } from "./Icon";
import { LanguageSwitch } from "./LanguageSwitch";

/** The first screen: who to be. */
export function Door({ demo, onEnter }: { demo: Demo; onEnter: (account: string) => void }) {
  const words = useWords();
  return (
    <div className={styles.screen}>
      <header className={styles.top}>
        <span className={styles.mark}>
          <Icon name="ticket" size={24} /> {words.studio}
        </span>
        <LanguageSwitch />
      </header>
      <main className={styles.middle}>
        <h1 className={styles.title}>{words.who}</h1>
        <p className={styles.hint}>{words.whoHint}</p>
        <ul className={styles.people}>
          {demo.people.map((person) => (
            <li key={person.account}>
              <button type="button" className={styles.person} onClick={() => onEnter(person.account)}>
                <span className={styles.stub} aria-hidden="true">
                  {person.account.slice(0, 1).toUpperCase()}
                </span>
                <span className={styles.body}>
                  <span className={styles.name}>
                    <span className="hidden">{words.enterAs} </span>
                    {person.account}
                  </span>{" "}
                  <span className={styles.plan}>{words.plan(person.plan)}</span>{" "}
                  <span className={styles.about}>{words.plans[person.plan]}</span>
                </span>
              </button>
            </li>
          ))}
        </ul>
      </main>
      <footer className={styles.foot}>{words.tagline}</footer>
    </div>
  );
}
