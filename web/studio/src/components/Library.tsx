import type { LibraryItem } from "@ficha/client";
import { useFicha, useLibrary } from "@ficha/react";
import { useState } from "react";
import { useProblemWords } from "../hooks/useProblemWords";
import { useSettled } from "../hooks/useSettled";
import { useLocale, useWords } from "../words";
import { Button } from "./Button";
import { Compare } from "./Compare";
import { Dialog } from "./Dialog";
import { Icon } from "./Icon";
import styles from "./Library.module.css";
import { StoredPicture } from "./StoredPicture";

/** What the account has made, newest first. */
export function Library({ onCreate }: { onCreate: () => void }) {
  const words = useWords();
  const wordsOf = useProblemWords();
  const [typed, setTyped] = useState("");
  const search = useSettled(typed.trim(), 250);
  const library = useLibrary({ search: search || undefined, include: ["payload", "result"] });
  const [open, setOpen] = useState<LibraryItem | null>(null);
  const items = library.items;
  return (
    <main className={styles.page}>
      <header className={styles.head}>
        <h1>{words.library}</h1>
        <label className={styles.search}>
          <Icon name="search" size={18} />
          <input
            type="search"
            value={typed}
            placeholder={words.searchLibrary}
            aria-label={words.searchLibrary}
            onChange={(event) => setTyped(event.target.value)}
          />
        </label>
      </header>
      {library.error && (
        <p className={`${styles.problem} ${styles.unread}`} role="alert">
          <span>{wordsOf(library.error)}</span>
          <Button onClick={library.refresh}>{words.again}</Button>
        </p>
      )}
      {items.length > 0 ? (
        <ul className={styles.grid}>
          {items.map((item) => (
            <li key={item.job.id}>
              <Work item={item} onOpen={() => setOpen(item)} />
            </li>
          ))}
        </ul>
      ) : (
        !library.isLoading &&
        !library.error && (
          <div className={styles.empty}>
            <Icon name="library" size={36} />
            <p className={styles.none}>{search ? words.noMatch(search) : words.noWorks}</p>
            {!search && <p>{words.noWorksHint}</p>}
            <Button look={search ? "plain" : "main"} onClick={search ? () => setTyped("") : onCreate}>
              {search ? words.clear : words.create}
            </Button>
          </div>
        )
      )}
      {library.hasMore && (
        <div className={styles.more}>
          <Button onClick={library.more}>{words.loadMore}</Button>
        </div>
      )}
      {open && (
        <OneWork
          item={open}
          onClose={() => setOpen(null)}
          onRemove={async () => {
            await library.remove(open.job.id);
            setOpen(null);
          }}
        />
      )}
    </main>
  );
}

function useTitle(item: LibraryItem): string {
  const words = useWords();
  return words.toolNames[item.job.tool]?.[0] ?? item.job.tool;
}

function Work({ item, onOpen }: { item: LibraryItem; onOpen: () => void }) {
  const words = useWords();
  const locale = useLocale();
  const title = useTitle(item);
  const results = item.files.filter((file) => file.role === "result");
  const [first] = results;
  const at = item.job.finished_at;
  const time = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return (
    <button type="button" className={styles.work} onClick={onOpen}>
      <span className={styles.picture}>
        {first && <StoredPicture file={first.id} alt="" />}
        {results.length > 1 && <span className={styles.count}>{results.length}</span>}
      </span>
      <span className={styles.caption}>
        <strong>
          <span className="hidden">{words.open} </span>
          {title}
        </strong>{" "}
        <span>{at ? time.format(at) : ""}</span>
      </span>
    </button>
  );
}

interface OneProps {
  item: LibraryItem;
  onClose: () => void;
  onRemove: () => Promise<void>;
}

function OneWork({ item, onClose, onRemove }: OneProps) {
  const words = useWords();
  const wordsOf = useProblemWords();
  const title = useTitle(item);
  const client = useFicha();
  const results = item.files.filter((file) => file.role === "result");
  const input = item.files.find((file) => file.role === "input");
  const [index, setIndex] = useState(0);
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const shown = results[index];
  const prompt = (item.job.payload as { prompt?: unknown; scene?: unknown } | null)?.prompt;
  const download = async () => {
    if (shown) save(await client.fileUrl(shown.id), shown.name);
  };
  const remove = () => onRemove().catch((error: unknown) => setProblem(wordsOf(error)));
  return (
    <Dialog title={title} look="wide" onClose={onClose}>
      <div className={styles.stage}>
        {shown && input ? (
          <Compare
            before={<StoredPicture file={input.id} alt={words.before} sharp={item.job.tool.includes("upscaler")} />}
            after={<StoredPicture file={shown.id} alt={words.result(index + 1)} />}
          />
        ) : (
          shown && <StoredPicture file={shown.id} alt={words.result(1)} />
        )}
      </div>
      {results.length > 1 && (
        <ul className={styles.thumbs}>
          {results.map((file, number) => (
            <li key={file.id}>
              <button type="button" aria-pressed={number === index} onClick={() => setIndex(number)}>
                <StoredPicture file={file.id} alt={words.result(number + 1)} />
              </button>
            </li>
          ))}
        </ul>
      )}
      {typeof prompt === "string" && <p className={styles.prompt}>“{prompt}”</p>}
      <p role="alert" className={styles.problem}>
        {problem}
      </p>
      <footer className={styles.acts}>
        {isAsking ? (
          <>
            <p>{words.removeAsk}</p>
            <Button onClick={() => setAsking(false)}>{words.keep}</Button>
            <Button look="main" onClick={remove}>
              {words.remove}
            </Button>
          </>
        ) : (
          <>
            <span className={styles.paid}>{words.credits(item.job.charged - item.job.refunded)}</span>
            <Button look="quiet" onClick={() => setAsking(true)}>
              <Icon name="trash" size={18} /> {words.remove}
            </Button>
            <Button look="main" onClick={download}>
              <Icon name="download" size={18} /> {words.download}
            </Button>
          </>
        )}
      </footer>
    </Dialog>
  );
}

/** Saves a file of the server under its own name. */
export function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
