import { readFileSync } from "node:fs";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [
    react(),
    {
      name: "style",
      generateBundle() {
        const source = readFileSync(new URL("src/style.css", import.meta.url), "utf8");
        this.emitFile({ type: "asset", fileName: "style.css", source });
      },
    },
  ],
  resolve: { conditions: ["development", "module", "browser"] },
  build: {
    lib: { entry: { index: "src/index.ts", plain: "src/plain.ts" }, formats: ["es"] },
    target: "es2022",
    rolldownOptions: { external: ["react", "react/jsx-runtime", "@ficha/client"] },
  },
  test: { name: "react", environment: "happy-dom" },
});
