import { type ReactNode, useId } from "react";
import styles from "./Field.module.css";

export interface FieldParts {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": true | undefined;
  "aria-required": true | undefined;
}

export interface FieldProps {
  label: string;
  /** A sentence below the label. */
  help?: string | undefined;
  /** What is wrong, with what to do. */
  error?: string | undefined;
  isRequired?: boolean;
  /** Draws the control; spread the parts onto it. */
  children: (parts: FieldParts) => ReactNode;
}

/** Label, control, help and error, tied together for screen readers. */
export function Field({ label, help, error, isRequired = false, children }: FieldProps) {
  const id = useId();
  const described = [help && `${id}-help`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={styles.label}>
        {label}
        {isRequired && <span className={styles.required}> (required)</span>}
      </label>
      {help && (
        <p id={`${id}-help`} className={styles.help}>
          {help}
        </p>
      )}
      {children({
        id,
        "aria-describedby": described || undefined,
        "aria-invalid": error ? true : undefined,
        "aria-required": isRequired || undefined,
      })}
      {error && (
        <p id={`${id}-error`} className={styles.error}>
          {error}
        </p>
      )}
    </div>
  );
}
