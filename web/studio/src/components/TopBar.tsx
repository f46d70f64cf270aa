import { useBalance } from "@ficha/react";
import { useWords } from "../words";
import { Icon } from "./Icon";
import { LanguageSwitch } from "./LanguageSwitch";
import styles from "./TopBar.module.css";

export type View = "create" | "library";

interface Props {
  account: string;
  plan: string;
  view: View;
  onView: (view: View) => void;
  onTopUp: () => void;
  onDemo: () => void;
  onLeave: () => void;
}

export function TopBar({ account, plan, view, onView, onTopUp, onDemo, onLeave }: Props) {
  const words = useWords();
  const { balance } = useBalance();
  return (
    <header className={styles.bar}>
      <span className={styles.mark}>
        <Icon name="ticket" size={24} /> <span>{words.studio}</span>
      </span>
      <nav className={styles.nav} aria-label={words.studio}>
        {(["create", "library"] as const).map((one) => (
          <button
            key={one}
            type="button"
            className={styles.view}
            aria-current={one === view ? "page" : undefined}
            onClick={() => onView(one)}
          >
            <Icon name={one} size={18} /> {words[one]}
          </button>
        ))}
      </nav>
      <div className={styles.right}>
        <div className={styles.language}>
          <LanguageSwitch />
        </div>
        <button type="button" className={styles.round} aria-label={words.demoTitle} onClick={onDemo}>
          <Icon name="demo" />
        </button>
        <button type="button" className={styles.balance} onClick={onTopUp}>
          <span className={styles.count}>
            {balance ?? "–"} <span className={styles.unit}>{words.unit(balance ?? 0)}</span>
          </span>
          <span className={styles.topUp}>{words.topUp}</span>
        </button>
        <button type="button" className={styles.who} title={words.switchAccount} onClick={onLeave}>
          <span className={styles.face} aria-hidden="true">
            {account.slice(0, 1).toUpperCase()}
          </span>
          <span className={styles.name}>
            {account} <small>{plan}</small>
            <span className="hidden">, {words.switchAccount}</span>
          </span>
        </button>
      </div>
    </header>
  );
}
