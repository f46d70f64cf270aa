import { useFileUrl } from "../hooks/useFileUrl";
import { useObjectUrl } from "../hooks/useObjectUrl";
import styles from "./StoredPicture.module.css";

/** A picture that the server keeps. */
export function StoredPicture({ file, alt, sharp = false }: { file: string; alt: string; sharp?: boolean }) {
  const url = useFileUrl(file);
  if (!url) return <span className={styles.empty} {...(alt ? { role: "img", "aria-label": alt } : {})} />;
  return <img className={sharp ? styles.sharp : styles.picture} src={url} alt={alt} draggable={false} />;
}

/** A picture of this computer. */
export function LocalPicture({ file }: { file: File }) {
  const url = useObjectUrl(file);
  return url && <img className={styles.picture} src={url} alt={file.name} draggable={false} />;
}
