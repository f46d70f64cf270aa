import { expect, test } from "vitest";
import { meaningOf } from "./useKeys";

function press(key: string, target: Element = document.body, keys: KeyboardEventInit = {}) {
  let meaning: ReturnType<typeof meaningOf> = null;
  const listen = (event: Event) => {
    meaning = meaningOf(event as KeyboardEvent);
  };
  document.addEventListener("keydown", listen);
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...keys }));
  document.removeEventListener("keydown", listen);
  return meaning;
}

test("single keys mean something only where nobody writes", () => {
  expect(press("j")).toBe("letter");
  expect(press("/")).toBe("search");
  expect(press("?")).toBe("help");
  const field = document.createElement("input");
  document.body.append(field);
  expect(press("j", field)).toBeNull();
  expect(press("/", field)).toBeNull();
  field.remove();
});

test("the chord of the palette works everywhere, other chords belong to the browser", () => {
  const field = document.createElement("textarea");
  document.body.append(field);
  expect(press("k", field, { ctrlKey: true })).toBe("palette");
  expect(press("K", document.body, { metaKey: true })).toBe("palette");
  expect(press("j", document.body, { ctrlKey: true })).toBeNull();
  field.remove();
});
