import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The server serves what is built here at /console. In development, `npm run dev` passes API calls on to it.
export default defineConfig({
  base: "/console/",
  plugins: [react()],
  resolve: { conditions: ["development", "module", "browser"] },
  build: {
    outDir: "../../src/ficha/server/pages/console",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8000" } },
  test: { name: "console", environment: "happy-dom" },
});
