import { gzipSync } from "node:zlib";
import { defineConfig } from "vitest/config";

const MOST_BYTES = 10_000;

// One file for browsers and bundlers. Its types are written by tsc beside it.
export default defineConfig({
  build: { lib: { entry: "src/index.ts", formats: ["es"], fileName: "index" }, target: "es2022", minify: true },
  plugins: [
    {
      name: "size-limit",
      generateBundle(_options, bundle) {
        const whole = Object.values(bundle).map((file) => (file.type === "chunk" ? file.code : ""));
        const bytes = gzipSync(whole.join("")).length;
        if (bytes > MOST_BYTES) this.error(`@ficha/client has ${bytes} bytes gzipped; the limit is ${MOST_BYTES}`);
        console.log(`@ficha/client: ${bytes} bytes gzipped, of at most ${MOST_BYTES}`);
      },
    },
  ],
  test: { name: "client", environment: "happy-dom" },
});
