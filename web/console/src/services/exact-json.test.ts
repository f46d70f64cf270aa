import { expect, test } from "vitest";
import { exactText, isSecretName, MASK, parseJson, writeJson } from "./exact-json";

const TEXT = '{"result":{"a":1e400,"b":12345678901234567890,"c":1.0,"d":[0.10,-0,7],"e":1E2}}';

test("numbers are written as they were sent", () => {
  const answer = parseJson(TEXT) as { result: Record<string, number> };
  expect(writeJson(answer, "result", answer.result).replace(/\s/g, "")).toBe(
    '{"a":1e400,"b":12345678901234567890,"c":1.0,"d":[0.10,-0,7],"e":1E2}',
  );
  expect(exactText(answer.result, "c", answer.result.c ?? 0)).toBe("1.0");
});

test("a number that stands alone is exact too", () => {
  const answer = parseJson('{"result": 1e400}') as { result: number };
  expect(writeJson(answer, "result", answer.result)).toBe("1e400");
});

test("secrets are masked, also in what is copied", () => {
  const answer = parseJson(
    '{"payload":{"api_key":"abc","nested":{"password":"x","Authorization":"Bearer y"},"n":1.0}}',
  );
  const { payload } = answer as { payload: object };
  const text = writeJson(answer as object, "payload", payload);
  expect(text).not.toMatch(/abc|"x"|Bearer/);
  expect(text).toContain(`"api_key": "${MASK}"`);
  expect(text).toContain("1.0");
});

test.each(["password", "api_key", "apiKey", "API-KEY", "webhook_secret", "access_token", "Authorization", "cookies"])(
  "%s names a secret",
  (name) => expect(isSecretName(name)).toBe(true),
);

test.each(["prompt", "tokenizer", "secretary", "passwordless_hint", "monkey"])("%s names no secret", (name) =>
  expect(isSecretName(name)).toBe(false),
);
