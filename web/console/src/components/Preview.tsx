import { useState } from "react";
import type { Schemas } from "../services/api";
import { formatBytes } from "../services/format";
import styles from "./Preview.module.css";

type FileView = Schemas["FileView"];

/** Pictures and films among the files, shown in place. The server decides what is safe to show; what fails is named. */
export function Preview({ files }: { files: readonly FileView[] }) {
  const shown = files.filter((file) => file.state === "stored" && /^(image|video|audio)\//.test(file.media_type));
  if (shown.length === 0) return null;
  return (
    <ul className={styles.preview}>
      {shown.map((file) => (
        <li key={file.id}>
          <One file={file} />
        </li>
      ))}
    </ul>
  );
}

export function fileAddress(file: FileView): string {
  return `/api/files/${encodeURIComponent(file.id)}?inline=true`;
}

function One({ file }: { file: FileView }) {
  const [hasFailed, setFailed] = useState(false);
  const address = fileAddress(file);
  const kind = file.media_type.split("/")[0];
  if (hasFailed) {
    return (
      <p className="muted">
        {file.name} cannot be shown here. <a href={address}>Open the file</a>.
      </p>
    );
  }
  return (
    <figure className={styles.figure}>
      {kind === "image" && (
        <a href={address} target="_blank" rel="noreferrer">
          <img src={address} alt={file.name} loading="lazy" onError={() => setFailed(true)} />
        </a>
      )}
      {kind === "video" && (
        <video src={address} controls preload="metadata" aria-label={file.name} onError={() => setFailed(true)} />
      )}
      {kind === "audio" && (
        <audio src={address} controls preload="metadata" aria-label={file.name} onError={() => setFailed(true)} />
      )}
      <figcaption>
        {file.name} · {formatBytes(file.size)}
      </figcaption>
    </figure>
  );
}
