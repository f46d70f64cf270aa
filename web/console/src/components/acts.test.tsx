import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { client } from "../services/queries";
import { type Draft, draftOf, formOf, payloadOf } from "../services/schema-form";
import type { SignedIn } from "../services/shapes";
import { ActButton } from "./ActButton";
import { SchemaForm } from "./SchemaForm";

const signIn = (scope: SignedIn["scope"]) =>
  client.setQueryData(["sign-in"], { name: "ops", scope, account: null, expires_at: null, environment: null });

beforeEach(() => signIn("admin"));
afterEach(cleanup);

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

function show(run: (reason: string, key: string) => Promise<string>) {
  render(
    <QueryClientProvider client={client}>
      <ActButton label="Grant" title="Grant?" confirm="Grant 5 credits" refresh={[]} run={run} />
    </QueryClientProvider>,
  );
}

async function confirm() {
  fireEvent.click(screen.getByText("Grant 5 credits"));
  await settle();
}

test("a try after a lost answer has the same key; another grant has another", async () => {
  const keys: string[] = [];
  const run = vi.fn(async (_reason: string, key: string) => {
    keys.push(key);
    if (keys.length === 1) throw new Error("no answer");
    return "done";
  });
  show(run);
  fireEvent.click(screen.getByText("Grant"));
  await confirm();
  await confirm();
  await waitFor(() => expect(document.querySelector("dialog[open]")).toBeNull());
  fireEvent.click(screen.getByText("Grant"));
  await confirm();
  expect(keys).toHaveLength(3);
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[1]).toBe(keys[0]);
  expect(keys[2]).not.toBe(keys[0]);
});

test("who may only look has no buttons that act", () => {
  signIn("viewer");
  show(async () => "done");
  expect(screen.queryByText("Grant")).toBeNull();
});

test("a form fills in, adds items, uploads files and says what is wrong beside the field", async () => {
  const form = formOf({
    type: "object",
    required: ["prompt", "image"],
    properties: {
      prompt: { type: "string", title: "Prompt", description: "What it shows." },
      images: { type: "integer", title: "Images", default: 1, maximum: 8 },
      quality: { enum: ["standard", "high"], title: "Quality", default: "standard" },
      flash: { type: "boolean", title: "Flash", default: false },
      tags: { type: "array", title: "Tags", items: { type: "string" }, maxItems: 2 },
      camera: { type: "object", title: "Camera", properties: { lens: { type: "number", title: "Lens" } } },
      image: { type: "string", format: "ficha-file", title: "Image" },
    },
  });
  let draft: Draft = draftOf(form);
  const onUpload = vi.fn(async (file: File) => ({ id: "file-1", name: file.name }));
  const { rerender } = render(<Shown />);
  function Shown() {
    return (
      <SchemaForm
        form={form}
        draft={draft}
        errors={payloadOf(form, draft).errors}
        onUpload={onUpload}
        onChange={(next) => {
          draft = next;
          rerender(<Shown />);
        }}
      />
    );
  }
  const type = (label: RegExp, value: string) => fireEvent.change(screen.getByLabelText(label), { target: { value } });
  type(/Prompt/, "a cat");
  type(/Images/, "9");
  expect(screen.getByLabelText(/Images/).getAttribute("aria-invalid")).toBe("true");
  expect(screen.getByText("At most 8.")).toBeTruthy();
  type(/Images/, "8");
  type(/Quality/, "1");
  type(/Flash/, "true");
  type(/Lens/, "35");
  fireEvent.click(screen.getByText("Add"));
  type(/^Tags 1/, "red");
  fireEvent.click(screen.getByText("Add"));
  fireEvent.click(screen.getByText("Add")); // two are the most
  type(/^Tags 2/, "blue");
  fireEvent.change(screen.getByLabelText(/Image \(/), { target: { files: [new File(["x"], "cat.png")] } });
  await settle();
  expect(screen.getByText("cat.png is stored.")).toBeTruthy();
  expect(payloadOf(form, draft)).toEqual({
    payload: {
      prompt: "a cat",
      images: 8,
      quality: "high",
      flash: true,
      tags: ["red", "blue"],
      camera: { lens: 35 },
      image: "file-1",
    },
    errors: {},
  });
});
