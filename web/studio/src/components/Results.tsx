import { useFicha } from "@ficha/react";
import { type ReactNode, useState } from "react";
import type { ResultFile } from "../services/tools";
import { useWords } from "../words";
import { Button } from "./Button";
import { Compare } from "./Compare";
import { Icon } from "./Icon";
import { save } from "./Library";
import styles from "./Results.module.css";
import { StoredPicture } from "./StoredPicture";

interface Props {
  files: ResultFile[];
  /** How many there will be. */
  of: number;
  /** What was worked on, if it was a picture. */
  before: ReactNode;
  isDone: boolean;
}

/** The pictures that are ready, beside what they were made of; those still to come have a place already. */
export function Results({ files, of, before, isDone }: Props) {
  const words = useWords();
  const client = useFicha();
  const [chosen, setChosen] = useState<number | null>(null);
  const index = Math.min(chosen ?? 0, files.length - 1);
  const shown = files[index];
  if (!shown) return null;
  const after = <StoredPicture file={shown.file} alt={words.result(index + 1)} />;
  return (
    <div className={styles.results}>
      <div className={styles.stage}>{before ? <Compare before={before} after={after} /> : after}</div>
      <div className={styles.row}>
        {of > 1 && (
          <ul className={styles.thumbs} aria-label={isDone ? undefined : words.arriving}>
            {Array.from({ length: Math.max(of, files.length) }, (_, number) => {
              const file = files[number];
              return (
                <li key={file?.file ?? `coming ${number}`}>
                  {file ? (
                    <button type="button" aria-pressed={number === index} onClick={() => setChosen(number)}>
                      <StoredPicture file={file.file} alt={words.result(number + 1)} />
                    </button>
                  ) : (
                    <span className={isDone ? styles.missing : styles.coming} />
                  )}
                </li>
              );
            })}
          </ul>
        )}
        <Button className={styles.download} onClick={async () => save(await client.fileUrl(shown.file), shown.name)}>
          <Icon name="download" size={18} /> {words.download}
        </Button>
      </div>
    </div>
  );
}
