import { useEffect, useId, useRef } from "react";
import { createPortal } from "react-dom";
import { Button } from "./Button";
import { CopyText } from "./CopyText";
import styles from "./SecretDialog.module.css";

export interface SecretDialogProps {
  /** Shown this once; undefined closes the dialog. */
  secret: string | undefined;
  title: string;
  /** What to do with it. */
  help: string;
  onClose: () => void;
}

/** A secret that is shown once. A click beside the dialog does not close it: the secret would be lost. */
export function SecretDialog({ secret, title, help, onClose }: SecretDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    if (secret !== undefined) dialog.current?.showModal();
    else dialog.current?.close();
  }, [secret]);
  return createPortal(
    <dialog
      ref={dialog}
      className={styles.dialog}
      aria-labelledby={titleId}
      onClose={() => secret !== undefined && onClose()}
      onCancel={(event) => event.preventDefault()}
    >
      {secret !== undefined && (
        <div className={styles.body}>
          <h2 id={titleId}>{title}</h2>
          <p>{help} It is shown only now; nobody can look it up later.</p>
          <div className={styles.secret}>
            <CopyText text={secret} what="secret" />
          </div>
          <Button look="solid" onClick={onClose}>
            I have stored it
          </Button>
        </div>
      )}
    </dialog>,
    document.body,
  );
}
