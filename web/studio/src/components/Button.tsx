import type { ButtonHTMLAttributes } from "react";
import styles from "./Button.module.css";

interface Look extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "main" | "plain" | "quiet";
}

export function Button({ look = "plain", className = "", ...rest }: Look) {
  return <button type="button" {...rest} className={`${styles.button} ${styles[look]} ${className}`} />;
}
