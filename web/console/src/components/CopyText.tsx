import { useEffect, useRef, useState } from "react";
import { copyText } from "../services/copy-text";
import styles from "./CopyText.module.css";
import { Icon } from "./Icon";

export interface CopyTextProps {
  /** What is copied, whole. */
  text: string;
  /** What is shown; the text itself unless told. An empty string shows the button alone. */
  shown?: string;
  /** What is copied, for the button's name: "Copy id". */
  what?: string;
}

/** Mono text with a button that copies it. */
export function CopyText({ text, shown = text, what = "text" }: CopyTextProps) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  async function copy() {
    setState((await copyText(text)) ? "copied" : "failed");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState("ready"), 2000);
  }

  const label = state === "copied" ? "Copied" : state === "failed" ? "Copy failed: select the text" : `Copy ${what}`;
  return (
    <span className={styles.copy}>
      {shown !== "" && (
        <code className={styles.text} title={shown === text ? undefined : text}>
          {shown}
        </code>
      )}
      <button type="button" className={styles.button} onClick={copy} aria-label={label} title={label}>
        <Icon size={14} name={state === "copied" ? "check" : state === "failed" ? "dead" : "copy"} />
      </button>
      <span role="status" className="spoken">
        {state === "ready" ? "" : label}
      </span>
    </span>
  );
}
