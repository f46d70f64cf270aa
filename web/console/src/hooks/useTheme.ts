import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "ficha.theme";
const listeners = new Set<() => void>();
let theme: Theme = stored();

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // Storage is refused: the theme lasts as long as the page.
  }
}

/** Writes the theme onto the page. Without `data-theme` the style sheet follows the system. */
export function applyTheme(): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(value: Theme): void {
  theme = value;
  try {
    if (value === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
  } catch {
    // As above.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

const dark = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
dark?.addEventListener("change", () => {
  for (const listener of listeners) listener();
});

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** Whether dark is what is shown. Charts are drawn again when it changes. */
export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, () => (theme === "system" ? (dark?.matches ?? false) : theme === "dark"));
}
