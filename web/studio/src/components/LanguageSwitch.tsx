import { createContext, useContext } from "react";
import { type Locale, useLocale, useWords } from "../words";
import styles from "./LanguageSwitch.module.css";

export const SetLocale = createContext<(locale: Locale) => void>(() => {});

const NAMES: [Locale, string, string][] = [
  ["en", "EN", "English"],
  ["pt-BR", "PT", "Português"],
];

export function LanguageSwitch() {
  const words = useWords();
  const locale = useLocale();
  const choose = useContext(SetLocale);
  return (
    <fieldset className={styles.group}>
      <legend className="hidden">{words.language}</legend>
      {NAMES.map(([value, short, name]) => (
        <button
          key={value}
          type="button"
          lang={value}
          className={styles.choice}
          aria-pressed={value === locale}
          aria-label={`${short}, ${name}`}
          onClick={() => choose(value)}
        >
          {short}
        </button>
      ))}
    </fieldset>
  );
}
