import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { projects: ["client", "react", "console", "studio"], passWithNoTests: true },
});
