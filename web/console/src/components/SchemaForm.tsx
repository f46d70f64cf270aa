import { type ChangeEvent, useState } from "react";
import { wordsOf } from "../services/api";
import { type Draft, draftOf, type Errors, type FormField } from "../services/schema-form";
import { Button } from "./Button";
import { Field } from "./Field";
import { Icon } from "./Icon";
import styles from "./SchemaForm.module.css";

export interface SchemaFormProps {
  form: FormField;
  draft: Draft;
  /** By path; the page decides when to show them. */
  errors: Errors;
  onChange: (draft: Draft) => void;
  /** Stores a file and gives its id. `onProgress` gets the share that is sent, from 0 to 1. */
  onUpload: (file: File, onProgress: (share: number) => void) => Promise<{ id: string; name: string }>;
}

/** The fields of a payload, drawn from its JSON Schema. */
export function SchemaForm({ form, draft, ...rest }: SchemaFormProps) {
  if (form.kind === "group" && form.fields.length === 0) return <p className="muted">This tool takes no fields.</p>;
  return <Part field={form} draft={draft} path="" isTop {...rest} />;
}

interface PartProps extends Omit<SchemaFormProps, "form"> {
  field: FormField;
  path: string;
  isTop?: boolean;
}

function Part(props: PartProps) {
  const { field, path, draft, errors, onChange } = props;
  if (field.kind === "group") return <Group {...props} field={field} />;
  if (field.kind === "list") return <List {...props} field={field} />;
  return (
    <Field label={field.title || "Item"} help={field.help} error={errors[path]} isRequired={field.isRequired}>
      {(parts) => {
        const typed = {
          ...parts,
          className: "field",
          value: String(draft),
          onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>) =>
            onChange(event.target.value),
        };
        switch (field.kind) {
          case "text":
            if (field.isLong) return <textarea {...typed} rows={3} />;
            return (
              <input {...typed} type={field.isSecret ? "password" : field.type} autoComplete="off" spellCheck={false} />
            );
          case "number":
            return <input {...typed} inputMode={field.isInteger ? "numeric" : "decimal"} autoComplete="off" />;
          case "boolean":
            return (
              <select
                {...typed}
                onChange={(event) => onChange(event.target.value === "" ? "" : event.target.value === "true")}
              >
                {!field.isRequired && <option value="">as the tool decides</option>}
                <option value="true">yes</option>
                <option value="false">no</option>
              </select>
            );
          case "choice":
            return (
              <select {...typed}>
                {(draft === "" || !field.isRequired) && (
                  <option value="">{field.isRequired ? "choose…" : "as the tool decides"}</option>
                )}
                {field.options.map((option, index) => (
                  <option key={JSON.stringify(option)} value={String(index)}>
                    {typeof option === "string" ? option : JSON.stringify(option)}
                  </option>
                ))}
              </select>
            );
          case "file":
            return <FileField parts={parts} draft={String(draft)} onChange={onChange} onUpload={props.onUpload} />;
          case "json":
            return <textarea {...typed} rows={5} className="field mono" spellCheck={false} />;
        }
      }}
    </Field>
  );
}

function Group({
  field,
  draft,
  path,
  errors,
  isTop,
  onChange,
  onUpload,
}: PartProps & { field: FormField & { kind: "group" } }) {
  const given = typeof draft === "object" && !Array.isArray(draft) ? draft : {};
  const fields = field.fields.map(([name, inner]) => (
    <Part
      key={name}
      field={inner}
      draft={given[name] ?? draftOf(inner)}
      path={path === "" ? name : `${path}.${name}`}
      errors={errors}
      onChange={(value) => onChange({ ...given, [name]: value })}
      onUpload={onUpload}
    />
  ));
  if (isTop) return <div className={styles.form}>{fields}</div>;
  return (
    <fieldset className={styles.group}>
      <legend>{field.title || "Item"}</legend>
      {field.help && <p className="muted">{field.help}</p>}
      {errors[path] && <p className={styles.error}>{errors[path]}</p>}
      {fields}
    </fieldset>
  );
}

function List({ field, draft, path, errors, onChange, onUpload }: PartProps & { field: FormField & { kind: "list" } }) {
  const items = Array.isArray(draft) ? draft : [];
  const change = (next: Draft[]) => onChange(next);
  return (
    <fieldset className={styles.group} aria-invalid={errors[path] ? true : undefined}>
      <legend>
        {field.title || "Items"}
        {field.isRequired && <span className="muted"> (required)</span>}
      </legend>
      {field.help && <p className="muted">{field.help}</p>}
      {errors[path] && <p className={styles.error}>{errors[path]}</p>}
      {items.map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: items have no names, and are only added and removed at the end.
        <div key={index} className={styles.item}>
          <Part
            field={{ ...field.item, title: field.item.title || `${field.title || "Item"} ${index + 1}` }}
            draft={item}
            path={`${path}.${index}`}
            errors={errors}
            onChange={(value) => change(items.map((old, place) => (place === index ? value : old)))}
            onUpload={onUpload}
          />
          <Button
            look="plain"
            aria-label={`Remove ${field.title} ${index + 1}`}
            isOff={items.length <= field.least}
            onClick={() => change(items.filter((_old, place) => place !== index))}
          >
            <Icon name="close" />
          </Button>
        </div>
      ))}
      <div>
        <Button
          isOff={field.most !== undefined && items.length >= field.most}
          onClick={() => change([...items, draftOf(field.item)])}
        >
          <Icon name="plus" /> Add
        </Button>
      </div>
    </fieldset>
  );
}

interface FileFieldProps {
  parts: object;
  draft: string;
  onChange: (draft: Draft) => void;
  onUpload: SchemaFormProps["onUpload"];
}

/** What the files were called that this page has stored. */
const namesById = new Map<string, string>();

/** A file is stored as soon as it is chosen; its id is what the payload has. */
function FileField({ parts, draft, onChange, onUpload }: FileFieldProps) {
  const [state, setState] = useState<{ name: string; share: number } | { failed: string }>();

  async function take(file: File | undefined) {
    if (!file) return;
    onChange("");
    setState({ name: file.name, share: 0 });
    try {
      const stored = await onUpload(file, (share) => setState({ name: file.name, share }));
      namesById.set(stored.id, stored.name);
      setState(undefined);
      onChange(stored.id);
    } catch (error) {
      setState({ failed: wordsOf(error) });
    }
  }

  return (
    <div className={styles.file}>
      <input
        {...parts}
        type="file"
        className={`field ${styles.choose}`}
        onChange={(event) => void take(event.target.files?.[0])}
      />
      <span role="status" className={state && "failed" in state ? styles.error : "muted"}>
        {state && "share" in state && `Uploading ${Math.floor(state.share * 100)} %`}
        {state && "failed" in state && state.failed}
        {!state && draft !== "" && (namesById.has(draft) ? `${namesById.get(draft)} is stored.` : `File ${draft}`)}
      </span>
    </div>
  );
}
