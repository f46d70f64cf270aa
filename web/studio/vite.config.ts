import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The studio example serves what is built here.
export default defineConfig({
  base: "/studio/",
  plugins: [react()],
  resolve: { conditions: ["development", "module", "browser"] },
  build: {
    outDir: "../../examples/studio/pages",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  test: { name: "studio", environment: "happy-dom" },
  server: { proxy: { "/api": "http://127.0.0.1:8000", "/studio": "http://127.0.0.1:8000" } },
});
