import { type FormEvent, useEffect, useState } from "react";
import { Field } from "./Field";

export interface SearchFieldProps {
  label: string;
  /** What the address says now. */
  value: string | undefined;
  help?: string;
  placeholder?: string;
  /** Called with Enter, or when the field is left or emptied; undefined for an empty field. */
  onSearch: (text: string | undefined) => void;
}

/** A filter whose text lives in the address. */
export function SearchField({ label, value, help, placeholder, onSearch }: SearchFieldProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const send = () => {
    const next = text.trim() || undefined;
    if (next !== value) onSearch(next);
  };
  return (
    <form
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        send();
      }}
    >
      <Field label={label} help={help}>
        {(parts) => (
          <input
            {...parts}
            type="search"
            className="field"
            placeholder={placeholder}
            autoComplete="off"
            spellCheck={false}
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              if (event.target.value === "" && value !== undefined) onSearch(undefined);
            }}
            onBlur={send}
          />
        )}
      </Field>
    </form>
  );
}
