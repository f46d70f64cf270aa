import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { api, Problem, wordsOf } from "../services/api";
import { accept, complete, partAt, typedAccount } from "../services/job-search";
import { searchWordsQuery } from "../services/queries";
import type { SearchWords } from "../services/shapes";
import { Icon } from "./Icon";
import styles from "./SearchBox.module.css";

interface SearchBoxProps {
  /** The text that the address has. */
  text: string;
  /** Why the server refused that text. */
  error: unknown;
  onSearch: (text: string) => void;
}

const NO_WORDS: SearchWords = { tools: [], pools: [], plans: [], states: [], providers: [] };

/** One box for all filters. Names and values complete; what the server refuses is marked where it stands. */
export function SearchBox({ text, error, onSearch }: SearchBoxProps) {
  const [typed, setTyped] = useState(text);
  const [caret, setCaret] = useState(text.length);
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();

  // The address changed by a link or by Back: the box follows.
  useEffect(() => {
    setTyped(text);
    setOpen(false);
  }, [text]);

  const words = useQuery({ ...searchWordsQuery, enabled: isOpen }).data ?? NO_WORDS;
  const prefix = isOpen ? typedAccount(typed, caret) : null;
  const accounts = useQuery({
    queryKey: ["accounts", "completion", prefix],
    enabled: prefix !== null,
    staleTime: 10_000,
    queryFn: ({ signal }) => api.get("/api/admin/accounts", { query: { search: prefix ?? "", limit: 12 }, signal }),
  }).data;
  const completion = complete(typed, caret, words, accounts?.items.map((account) => account.id) ?? []);
  const isShown = isOpen && completion.options.length > 0;
  const active = isShown ? Math.min(at, completion.options.length - 1) : -1;

  function take(index: number) {
    const option = completion.options[index];
    if (!option) return;
    const next = accept(typed, completion, option.insert);
    setTyped(next.text);
    setCaret(next.caret);
    setAt(-1);
    setOpen(true);
    requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.setSelectionRange(next.caret, next.caret);
    });
  }

  function search(event?: FormEvent) {
    event?.preventDefault();
    setOpen(false);
    onSearch(typed.trim());
  }

  function press(event: KeyboardEvent<HTMLInputElement>) {
    if (event.nativeEvent.isComposing) return;
    const most = completion.options.length;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && most > 0) {
      setOpen(true);
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt(active < 0 ? (step > 0 ? 0 : most - 1) : (active + step + most) % most);
    } else if (event.key === "Enter" && active >= 0) {
      take(active);
    } else if (
      event.key === "Tab" &&
      !event.shiftKey &&
      isShown &&
      (active >= 0 || (most === 1 && completion.to > completion.from))
    ) {
      take(Math.max(0, active));
    } else if (event.key === "Escape" && isShown) {
      setOpen(false);
      setAt(-1);
    } else if (event.key === "Escape") {
      field.current?.blur();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  const position = error instanceof Problem ? error.position : null;
  const wrong = position === null ? null : partAt(text, position);
  return (
    <form className={styles.search} role="search" onSubmit={search}>
      <div className={styles.box} data-wrong={error !== null || undefined}>
        <Icon name="search" />
        <input
          ref={field}
          data-search
          className={styles.field}
          role="combobox"
          aria-label="Search jobs"
          aria-expanded={isShown}
          aria-controls={`${id}-list`}
          aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
          aria-autocomplete="list"
          aria-invalid={error !== null}
          aria-describedby={error !== null ? `${id}-wrong` : undefined}
          placeholder='state:failed tool:upscale since:1h error:"timed out"'
          enterKeyHint="search"
          autoCapitalize="none"
          autoCorrect="off"
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
            setCaret(event.target.selectionStart ?? event.target.value.length);
            setOpen(true);
            setAt(-1);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onKeyDown={press}
        />
        {typed !== "" && (
          <button
            type="button"
            className={styles.clear}
            aria-label="Clear the search"
            onClick={() => {
              setTyped("");
              onSearch("");
              field.current?.focus();
            }}
          >
            <Icon name="close" />
          </button>
        )}
        <kbd className={styles.key} aria-hidden="true">
          /
        </kbd>
        <button type="submit" className={`button solid ${styles.go}`}>
          Search
        </button>
      </div>
      <ul id={`${id}-list`} role="listbox" aria-label="Completions" className={styles.list} hidden={!isShown}>
        {completion.options.map((option, index) => (
          <li
            key={option.label}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === active}
            className={styles.option}
            onMouseDown={(event) => {
              event.preventDefault(); // the field keeps the focus
              take(index);
            }}
          >
            <span className="mono">{option.label}</span>
            <span className="muted">{option.note}</span>
          </li>
        ))}
      </ul>
      {error !== null && (
        <div id={`${id}-wrong`} role="alert" className={styles.wrong}>
          {wrong && (
            <code>
              {wrong.before}
              <mark>{wrong.wrong}</mark>
              {wrong.after}
            </code>
          )}
          <p>{wordsOf(error)}</p>
        </div>
      )}
    </form>
  );
}
