import { useFicha } from "@ficha/react";
import { useState } from "react";
import { useProblemWords } from "../hooks/useProblemWords";
import { type NextTask, tellProvider } from "../services/door";
import { useWords } from "../words";
import styles from "./DemoDrawer.module.css";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import { LanguageSwitch } from "./LanguageSwitch";

const NEXT: NextTask[] = ["fail", "lose", "slow"];

/** What only a demonstration has: a provider that does as it is told, and ways to look behind. */
export function DemoDrawer({ isSimulated, onClose }: { isSimulated: boolean; onClose: () => void }) {
  const words = useWords();
  const client = useFicha();
  const wordsOf = useProblemWords();
  const [told, setTold] = useState<NextTask | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const tell = (next: NextTask) => {
    setProblem(null);
    tellProvider(client, next).then(
      () => setTold(next),
      (error: unknown) => setProblem(wordsOf(error)),
    );
  };
  return (
    <Dialog title={words.demoTitle} look="side" onClose={onClose}>
      {isSimulated && (
        <section className={styles.part}>
          <p className={styles.hint}>{words.demoHint}</p>
          <ul className={styles.list}>
            {NEXT.map((next) => (
              <li key={next}>
                <button type="button" className={styles.choice} aria-pressed={told === next} onClick={() => tell(next)}>
                  <strong>{words.next[next][0]}</strong>
                  <span>{words.next[next][1]}</span>
                </button>
              </li>
            ))}
          </ul>
          <p className={problem ? styles.problem : styles.told} role="status">
            {problem ?? (told ? words.told : "")}
          </p>
        </section>
      )}
      <ul className={styles.links}>
        {[
          ["/studio", words.secondWindow],
          ["/console", words.console],
          ["/docs", words.docs],
        ].map(([href, name]) => (
          <li key={href}>
            <a className={styles.link} href={href} target="_blank" rel="noreferrer noopener">
              {name} <Icon name="out" size={16} />
            </a>
          </li>
        ))}
      </ul>
      <div className={styles.language}>
        <LanguageSwitch />
      </div>
    </Dialog>
  );
}
