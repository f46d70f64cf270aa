// @vitest-environment node
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const WEB = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const PAGES = ["client/README.md", "react/README.md", "../docs/web.md"];

/** The samples of the pages, each as a file that is beside this one and nowhere on the disk. */
function samples(): Map<string, string> {
  const found = new Map<string, string>();
  for (const page of PAGES) {
    const text = readFileSync(resolve(WEB, page), "utf8");
    for (const [at, [, kind, code]] of [...text.matchAll(/```(tsx?)\n(.*?)```/gs)].entries()) {
      const name = page.replace(/\W/g, "_");
      found.set(resolve(WEB, `react/test/${name}_${at + 1}.${kind}`), `${code}\nexport {};\n`);
    }
  }
  return found;
}

test("every sample of the guides compiles", { timeout: 60_000 }, () => {
  const virtual = samples();
  expect(virtual.size).toBeGreaterThanOrEqual(7);
  const config = ts.readConfigFile(resolve(WEB, "tsconfig.base.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, resolve(WEB, "react"));
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (name) => virtual.has(name) || fileExists(name);
  host.readFile = (name) => virtual.get(name) ?? readFile(name);
  host.getSourceFile = (name, version, ...more) => {
    const text = virtual.get(name);
    return text === undefined ? getSourceFile(name, version, ...more) : ts.createSourceFile(name, text, version);
  };
  const program = ts.createProgram([...virtual.keys()], { ...options, noUnusedLocals: false }, host);
  const wrong = [...virtual.keys()].flatMap((name) => {
    const file = program.getSourceFile(name);
    return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(
      (told) => `${name}: ${ts.flattenDiagnosticMessageText(told.messageText, "\n")}`,
    );
  });
  expect(wrong).toEqual([]);
});
