import { createFicha } from "@ficha/client";
import { FichaProvider } from "@ficha/react";
import { useCallback, useEffect, useMemo, useState } from "react";
import styles from "./App.module.css";
import { Button } from "./components/Button";
import { Door } from "./components/Door";
import { SetLocale } from "./components/LanguageSwitch";
import { Workspace } from "./components/Workspace";
import { type Demo, loadDemo, tokensOf } from "./services/door";
import { firstLocale, keepLocale, type Locale, LocaleContext, useWords } from "./words";

/** Which account this window is. Only its name is kept, for a reload; another window may be somebody else. */
const KEPT = "studio.account";

export function App() {
  const [locale, setLocale] = useState<Locale>(firstLocale);
  useEffect(() => {
    document.documentElement.lang = locale;
    keepLocale(locale);
  }, [locale]);
  return (
    <LocaleContext value={locale}>
      <SetLocale value={setLocale}>
        <Studio locale={locale} />
      </SetLocale>
    </LocaleContext>
  );
}

function Studio({ locale }: { locale: Locale }) {
  const words = useWords();
  const [demo, setDemo] = useState<Demo | null>(null);
  const [isLost, setLost] = useState(false);
  const [account, setAccount] = useState(() => sessionStorage.getItem(KEPT));
  const load = useCallback(() => {
    setLost(false);
    loadDemo().then(setDemo, () => setLost(true));
  }, []);
  useEffect(load, [load]);
  useEffect(() => {
    document.title = account ? `${account} · ${words.studio}` : words.studio;
  }, [account, words]);

  const person = demo?.people.find((one) => one.account === account);
  const name = person?.account;
  const client = useMemo(() => (name ? createFicha({ token: tokensOf(name) }) : null), [name]);
  const enter = (chosen: string | null) => {
    if (chosen) sessionStorage.setItem(KEPT, chosen);
    else sessionStorage.removeItem(KEPT);
    setAccount(chosen);
  };

  if (isLost) {
    return (
      <main className={styles.lost}>
        <p role="alert">{words.lostDoor}</p>
        <Button look="main" onClick={load}>
          {words.again}
        </Button>
      </main>
    );
  }
  if (!demo) return null;
  if (!client || !person) return <Door demo={demo} onEnter={enter} />;
  return (
    <FichaProvider client={client} locale={locale} key={person.account}>
      <Workspace demo={demo} person={person} onLeave={() => enter(null)} />
    </FichaProvider>
  );
}
