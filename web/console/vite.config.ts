import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** What the first page loads, gzipped, in bytes. A build above this fails. */
const FIRST_LOAD_MAX = 250_000;

// The server serves what is built here at /console. In development, `vite console` passes API calls on to a server on
// port 8000, or answers them itself with made-up data where FICHA_FAKE is full, empty, partly or failing.
export default defineConfig({
  base: "/console/",
  plugins: [react(), firstLoad(), ...(process.env.FICHA_FAKE ? [fakeServer(process.env.FICHA_FAKE)] : [])],
  resolve: { conditions: ["development", "module", "browser"] },
  build: {
    outDir: "../../src/ficha/server/pages/console",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: { proxy: process.env.FICHA_FAKE ? {} : { "/api": "http://127.0.0.1:8000" } },
  test: { name: "console", environment: "happy-dom" },
});

/** Prints what opening the overview loads (scripts and styles, with all that they import at once), and limits it. */
function firstLoad(): Plugin {
  return {
    name: "first-load",
    apply: "build",
    generateBundle(_options, bundle) {
      const wanted = new Set<string>();
      const styles = new Set<string>();
      const take = (name: string) => {
        const chunk = bundle[name];
        if (wanted.has(name) || chunk?.type !== "chunk") return;
        wanted.add(name);
        for (const style of chunk.viteMetadata?.importedCss ?? []) styles.add(style);
        for (const inner of chunk.imports) take(inner);
      };
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        const isFirstPage = chunk.facadeModuleId?.endsWith("/routes/overview.tsx") ?? false;
        if (chunk.isEntry || isFirstPage) take(chunk.fileName);
      }
      let size = 0;
      for (const name of [...wanted, ...styles]) {
        const part = bundle[name];
        if (part) size += gzipSync(part.type === "chunk" ? part.code : part.source, { level: 9 }).length;
      }
      const words = `first load: ${(size / 1000).toFixed(1)} kB gzipped, of ${FIRST_LOAD_MAX / 1000} kB`;
      if (size > FIRST_LOAD_MAX) this.error(words);
      this.info(words);
    },
  };
}

function fakeServer(mode: string): Plugin {
  const listen = async (request: IncomingMessage, response: ServerResponse, load: () => Promise<FakeServer>) => {
    const { answer } = await load();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = new Headers(
      Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)]),
    );
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    const url = `http://fake${request.url}`;
    const made = await answer(new Request(url, { method: request.method ?? "GET", headers, body }), mode as "full");
    response.writeHead(made.status, Object.fromEntries(made.headers));
    const reader = made.body?.getReader();
    response.on("close", () => void reader?.cancel());
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) response.write(part.value);
    response.end();
  };
  return {
    name: "fake-server",
    configureServer(server) {
      const load = () => server.ssrLoadModule("/fake/server.ts") as Promise<FakeServer>;
      server.middlewares.use((request, response, next) => {
        if (request.url?.startsWith("/api/")) void listen(request, response, load).catch(next);
        else next();
      });
    },
    // `vite preview` serves the built pages: with the rules that the real server sends, so that what they forbid shows.
    configurePreviewServer(server) {
      const load = () => import("./fake/server.ts") as Promise<FakeServer>;
      server.middlewares.use((request, response, next) => {
        response.setHeader("Content-Security-Policy", CSP);
        if (request.url?.startsWith("/api/")) void listen(request, response, load).catch(next);
        else next();
      });
    },
  };
}

type FakeServer = typeof import("./fake/server.ts");

const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
