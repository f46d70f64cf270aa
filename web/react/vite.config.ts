import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  resolve: { conditions: ["development", "module", "browser"] },
  build: {
    lib: { entry: "src/index.ts", formats: ["es"], fileName: "index", cssFileName: "style" },
    target: "es2022",
    rolldownOptions: { external: ["react", "react/jsx-runtime", "@ficha/client"] },
  },
  test: { name: "react", environment: "happy-dom" },
});
