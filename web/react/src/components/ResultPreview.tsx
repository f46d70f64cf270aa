import { useEffect, useState } from "react";
import { type Shown, shownIn } from "../pictures";
import { useFicha, useWords } from "../provider";

export interface ResultPreviewProps {
  /** A result, or what there is of one: pictures, videos and files are found wherever they stand in it. */
  value: unknown;
  /** How many there will be, where that is known: the missing ones have an empty place. */
  expected?: number | undefined;
  className?: string | undefined;
}

/** What was made. It grows as parts arrive, and what is shown already stays where it is. */
export function ResultPreview({ value, expected = 0, className }: ResultPreviewProps) {
  const words = useWords();
  const shown = shownIn(value);
  const missing = Math.max(0, Math.min(expected, 48) - shown.length);
  if (shown.length + missing === 0) return null;
  return (
    <ul className={`ficha-results ${className ?? ""}`} aria-label={words.resultsLabel}>
      {shown.map((one, index) => (
        <li key={one.key} className="ficha-result">
          {one.kind === "data" ? (
            <img src={one.url} alt={words.result(index + 1)} />
          ) : (
            <StoredFile file={one} label={words.result(index + 1)} />
          )}
        </li>
      ))}
      {Array.from({ length: missing }, (_none, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all are alike.
        <li key={`missing ${index}`} className="ficha-result ficha-result-missing" aria-hidden="true" />
      ))}
    </ul>
  );
}

function StoredFile({ file, label }: { file: Extract<Shown, { kind: "file" }>; label: string }) {
  const words = useWords();
  const { url, isGone } = useFileUrl(file.file);
  if (!url) return <span className="ficha-result-missing" data-gone={isGone || undefined} title={file.name} />;
  if (file.mediaType.startsWith("image/")) return <img src={url} alt={label} />;
  if (file.mediaType.startsWith("video/")) return <video src={url} aria-label={label} controls playsInline />;
  if (file.mediaType.startsWith("audio/")) return <audio src={url} aria-label={label} controls />;
  return (
    <a href={url} download={file.name}>
      {words.download(file.name)}
    </a>
  );
}

/** Where the page can read a file; null until that is known. */
export function useFileUrl(id: string | null): { url: string | null; isGone: boolean } {
  const client = useFicha();
  const [found, setFound] = useState<{ id: string; url: string | null } | null>(null);
  useEffect(() => {
    if (id === null) return;
    let isWanted = true;
    client.fileUrl(id).then(
      (url) => isWanted && setFound({ id, url }),
      () => isWanted && setFound({ id, url: null }),
    );
    return () => {
      isWanted = false;
    };
  }, [client, id]);
  const isOwn = found !== null && found.id === id;
  return { url: isOwn ? found.url : null, isGone: isOwn && found.url === null };
}
