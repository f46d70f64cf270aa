import { defineConfig } from "vitest/config";

// One file for browsers and bundlers. Its types are written by tsc beside it.
export default defineConfig({
  build: { lib: { entry: "src/index.ts", formats: ["es"], fileName: "index" }, target: "es2022", minify: true },
  test: { name: "client", environment: "happy-dom" },
});
