import { useId } from "react";
import type { Field } from "../services/tools";
import { useWords } from "../words";
import { Icon } from "./Icon";
import styles from "./Options.module.css";

interface Props {
  tool: string;
  fields: Field[];
  values: Record<string, unknown>;
  onChange: (name: string, value: unknown) => void;
}

/** What can be set besides the pictures, made from the tool's schema. */
export function Options({ tool, fields, values, onChange }: Props) {
  return (
    <div className={styles.options}>
      {fields.map((field) => (
        <Option
          key={`${tool} ${field.name}`}
          tool={tool}
          field={field}
          value={values[field.name] ?? field.initial ?? ""}
          onChange={(value) => onChange(field.name, value)}
        />
      ))}
    </div>
  );
}

interface OptionProps {
  tool: string;
  field: Field;
  value: unknown;
  onChange: (value: unknown) => void;
}

function Option({ tool, field, value, onChange }: OptionProps) {
  const words = useWords();
  const id = useId();
  const label = words.fields[field.name] ?? field.title;
  if (field.kind === "choice") {
    return (
      <fieldset className={styles.option}>
        <legend className={styles.label}>{label}</legend>
        <div className={styles.choices}>
          {field.choices.map((choice) => (
            <label key={choice} className={styles.choice}>
              <input type="radio" name={id} checked={choice === value} onChange={() => onChange(choice)} />
              <span>{words.values[String(choice)] ?? String(choice)}</span>
            </label>
          ))}
        </div>
      </fieldset>
    );
  }
  if (field.kind === "number") {
    const count = Number(value);
    return (
      <div className={styles.option}>
        <label className={styles.label} htmlFor={id}>
          {label}
        </label>
        <div className={styles.stepper}>
          <Step name="minus" label={words.fewer} isOff={count <= field.least} onClick={() => onChange(count - 1)} />
          <input
            id={id}
            type="number"
            inputMode="numeric"
            min={field.least}
            max={field.most}
            value={count}
            onChange={(event) => {
              const typed = event.target.valueAsNumber;
              if (Number.isInteger(typed)) onChange(Math.min(field.most, Math.max(field.least, typed)));
            }}
          />
          <Step name="plus" label={words.more} isOff={count >= field.most} onClick={() => onChange(count + 1)} />
        </div>
      </div>
    );
  }
  const ideas = ideasFor(tool, words);
  return (
    <div className={styles.option}>
      <label className={styles.label} htmlFor={id}>
        {label}
      </label>
      <textarea
        id={id}
        className={styles.text}
        rows={tool === "freestyle" ? 4 : 2}
        maxLength={field.most}
        value={String(value)}
        placeholder={ideas[0]}
        onChange={(event) => onChange(event.target.value)}
      />
      <ul className={styles.ideas} aria-label={words.ideas}>
        {ideas.map((idea) => (
          <li key={idea}>
            <button type="button" className={styles.idea} onClick={() => onChange(idea)}>
              {idea}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function ideasFor(tool: string, words: ReturnType<typeof useWords>): string[] {
  if (tool === "pose_changer") return words.poses;
  if (tool === "product") return words.scenes;
  return tool === "workflow" ? words.styles : words.prompts;
}

function Step({ name, label, isOff, onClick }: { name: string; label: string; isOff: boolean; onClick: () => void }) {
  return (
    <button type="button" className={styles.step} aria-label={label} disabled={isOff} onClick={onClick}>
      <Icon name={name} size={18} />
    </button>
  );
}
