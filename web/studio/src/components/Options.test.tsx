import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { Field } from "../services/tools";
import { Options } from "./Options";

afterEach(cleanup);

const FIELD: Field = {
  name: "",
  kind: "text",
  title: "",
  isRequired: false,
  initial: undefined,
  choices: [],
  least: 0,
  most: 500,
};

function shown(field: Partial<Field>, values: Record<string, unknown> = {}) {
  const changed = vi.fn();
  render(<Options tool="freestyle" fields={[{ ...FIELD, ...field }]} values={values} onChange={changed} />);
  return changed;
}

test("a choice begins with the schema's default", () => {
  const changed = shown({ name: "scale", kind: "choice", choices: [2, 4], initial: 2 });
  expect((screen.getByRole("radio", { name: "2 ×" }) as HTMLInputElement).checked).toBe(true);
  fireEvent.click(screen.getByRole("radio", { name: "4 ×" }));
  expect(changed).toHaveBeenCalledWith("scale", 4);
});

test("a number stays between its least and its most", () => {
  const changed = shown({ name: "images", kind: "number", least: 1, most: 8, initial: 1 });
  expect((screen.getByRole("button", { name: "One fewer" }) as HTMLButtonElement).disabled).toBe(true);
  fireEvent.click(screen.getByRole("button", { name: "One more" }));
  expect(changed).toHaveBeenLastCalledWith("images", 2);
  fireEvent.change(screen.getByRole("spinbutton", { name: "How many" }), { target: { value: "99" } });
  expect(changed).toHaveBeenLastCalledWith("images", 8);
});

test("an idea becomes the prompt, and the prompt is bounded", () => {
  const changed = shown({ name: "prompt", kind: "text", most: 500 });
  expect((screen.getByRole("textbox", { name: "Prompt" }) as HTMLTextAreaElement).maxLength).toBe(500);
  fireEvent.click(screen.getByRole("button", { name: "a harbour at night" }));
  expect(changed).toHaveBeenCalledWith("prompt", "a harbour at night");
});

test("a field that the page has no word for has the schema's title", () => {
  shown({ name: "seed", kind: "number", title: "Seed", least: 0, most: 9, initial: 3 });
  expect(screen.getByRole("spinbutton", { name: "Seed" })).toBeTruthy();
});
