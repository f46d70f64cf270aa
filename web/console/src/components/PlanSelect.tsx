import { useQuery } from "@tanstack/react-query";
import { plansQuery } from "../services/lists";
import { Field } from "./Field";

export interface PlanSelectProps {
  value: string;
  onChange: (plan: string) => void;
  /** What no choice means; without it one must be chosen. */
  none?: string;
}

/** The plans that the application declares. */
export function PlanSelect({ value, onChange, none }: PlanSelectProps) {
  const plans = useQuery(plansQuery);
  const names = plans.data?.items.map((plan) => plan.name) ?? (value ? [value] : []);
  return (
    <Field label="Plan">
      {(parts) => (
        <select {...parts} className="field" value={value} onChange={(event) => onChange(event.target.value)}>
          {none !== undefined && <option value="">{none}</option>}
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
