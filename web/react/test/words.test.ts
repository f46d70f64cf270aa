import { FichaError, type Job, type JobState, type Waiting } from "@ficha/client";
import { expect, test } from "vitest";
import { jobJson } from "../../client/test/hostileServer";
import { type Around, describe } from "../src/describe";
import { formatElapsed, formatRange, isLate, roundEstimate } from "../src/rounding";
import { type Locale, localeOf, WORDS } from "../src/words";

const NOW = Date.parse("2026-11-16T10:00:18Z");
const AT = new Date(2026, 10, 16, 14, 5);
const job = (fields: Partial<Record<keyof Job, unknown>>): Job => jobJson(fields) as unknown as Job;
const followed = { connection: "live", problem: null } as const;

function waiting(reason: Waiting["wait"]["reason"], wait: Partial<Waiting["wait"]> = {}, fields = {}): JobState {
  const own = { position: 3, of: 12, estimate: 38, reason, isOvertaken: false, retryAt: null, ...wait };
  return { ...followed, phase: "waiting", job: job(fields), wait: own };
}

function running(progress: number | null, usual: readonly [number, number] | null = null, seconds = 18): JobState {
  const since = new Date(NOW - seconds * 1_000);
  return { ...followed, phase: "running", job: job({ status: "running" }), progress, partial: null, since, usual };
}

const uploading = (share: number, total = 100): JobState => ({
  ...followed,
  phase: "uploading",
  job: null,
  upload: { sent: share * total, total, share },
});
const ended = (phase: "done" | "failed" | "cancelled", fields = {}): JobState => ({
  ...followed,
  phase,
  job: job(fields),
});

const STATES: Record<string, [JobState, en: string, pt: string]> = {
  upload: [uploading(0.629), "Uploading 62 %", "Enviando 62 %"],
  sending: [uploading(1), "Sending…", "Enviando…"],
  place: [waiting("place"), "You are #3 of 12. About 40 s.", "Você é o nº 3 de 12. Cerca de 40 s."],
  "no estimate": [
    waiting("place", { estimate: null }),
    "You are #3. No estimate yet.",
    "Você é o nº 3. Ainda sem previsão.",
  ],
  "a long wait": [
    waiting("place", { of: null, estimate: 5_000 }),
    "You are #3. More than 10 min.",
    "Você é o nº 3. Mais de 10 min.",
  ],
  "no place": [waiting("place", { position: null }), "You are in line.", "Você está na fila."],
  pool_full: [
    waiting("pool_full", { position: 1 }),
    "You are next. All machines are busy.",
    "Você é o próximo. Todas as máquinas estão ocupadas.",
  ],
  "pool_full, and others first": [
    waiting("pool_full"),
    "You are #3 of 12. About 40 s.",
    "Você é o nº 3 de 12. Cerca de 40 s.",
  ],
  account_limit: [
    waiting("account_limit"),
    "Your plan runs 2 at once. This starts when one of yours ends.",
    "Seu plano executa 2 por vez. Este começa quando um dos seus terminar.",
  ],
  schedule: [
    waiting("schedule", { retryAt: AT }, { attempts: 1, max_attempts: 3 }),
    "Next try at 14:05 (2 of 3).",
    "Próxima tentativa às 14:05 (2 de 3).",
  ],
  "first start": [waiting("schedule", { retryAt: AT }), "Starts at 14:05.", "Começa às 14:05."],
  pool_paused: [
    waiting("pool_paused"),
    "Paused by the operator. Your place is kept.",
    "Pausado pelo operador. Seu lugar está guardado.",
  ],
  equal_job: [
    waiting("equal_job"),
    "The same work is under way. You get its result.",
    "O mesmo trabalho já está em andamento. Você recebe o resultado dele.",
  ],
  running: [running(40), "Making your picture, 40 %", "Criando sua imagem, 40 %"],
  "no progress": [
    running(null, [20, 30]),
    "Making your picture, 18 s. Usually 20–30 s.",
    "Criando sua imagem, 18 s. Normalmente 20–30 s.",
  ],
  "nothing known": [running(null), "Making your picture, 18 s.", "Criando sua imagem, 18 s."],
  late: [
    running(null, [20, 30], 46),
    "Longer than usual. Still working.",
    "Mais demorado que o normal. Ainda em andamento.",
  ],
  "cut off": [
    { ...waiting("place"), connection: "lost" } as JobState,
    "Connection lost. Your job goes on.",
    "Conexão perdida. Seu trabalho continua.",
  ],
  completed: [ended("done", { units: 4, delivered: 4 }), "Done.", "Pronto."],
  "completed in part": [
    ended("done", { units: 4, delivered: 3, refunded: 1 }),
    "3 of 4 made, 1 credit returned.",
    "3 de 4 feitos, 1 crédito devolvido.",
  ],
  failed: [
    ended("failed", { user_error: "the sky was too dark.", refunded: 4 }),
    "It failed: the sky was too dark. 4 credits returned, you have 20.",
    "Falhou: the sky was too dark. 4 créditos devolvidos, você tem 20.",
  ],
  "failed for free": [ended("failed", { user_error: "really?" }), "It failed: really?", "Falhou: really?"],
  cancelled: [
    ended("cancelled", { refunded: 4 }),
    "Cancelled. 4 credits returned.",
    "Cancelado. 4 créditos devolvidos.",
  ],
  "cancelled with a reason": [
    ended("cancelled", { user_error: "we are closing the shop", refunded: 1 }),
    "Cancelled: we are closing the shop. 1 credit returned.",
    "Cancelado: we are closing the shop. 1 crédito devolvido.",
  ],
  "waited too long": [
    ended("cancelled", { user_error: "it waited longer than 10 minutes", refunded: 6 }),
    "Cancelled: it waited longer than 10 minutes. 6 credits returned.",
    "Cancelado: esperou mais de 10 minutos. 6 créditos devolvidos.",
  ],
  "waited a second": [
    ended("cancelled", { user_error: "it waited longer than 1 second" }),
    "Cancelled: it waited longer than 1 second.",
    "Cancelado: esperou mais de 1 segundo.",
  ],
  "page left": [
    ended("cancelled", { user_error: "the page was left", refunded: 6 }),
    "Cancelled: the page was left. 6 credits returned.",
    "Cancelado: a página foi fechada. 6 créditos devolvidos.",
  ],
  "page silent": [
    ended("cancelled", { user_error: "the page was silent for too long", refunded: 6 }),
    "Cancelled: the page was silent for too long. 6 credits returned.",
    "Cancelado: a página não deu sinal por muito tempo. 6 créditos devolvidos.",
  ],
  "cancelled for free": [ended("cancelled"), "Cancelled.", "Cancelado."],
};

function around(locale: Locale): Around {
  return { words: WORDS[locale], now: NOW, balance: 20, atOnce: 2, making: WORDS[locale].making };
}

test.each(Object.entries(STATES))("%s has its exact words", (_name, [state, en, pt]) => {
  expect(describe(state, around("en")).text).toBe(en);
  expect(describe(state, around("pt-BR")).text).toBe(pt);
});

test.each(Object.entries(STATES))("of %s no timer is spoken, and nothing that counts", (_name, [state]) => {
  const { spoken } = describe(state, around("en"));
  if (state.phase === "running") expect(spoken).not.toMatch(/\d/);
  expect(spoken).not.toBe("");
});

test("a place that got worse says why", () => {
  const told = describe(waiting("place", { isOvertaken: true }), around("en"));
  expect(told.note).toBe("A higher plan went ahead.");
});

test("what was known last stays beside a lost connection", () => {
  const told = describe({ ...running(40), connection: "lost" } as JobState, around("en"));
  expect(told).toMatchObject({ note: "Making your picture, 40 %", isLost: true, bar: 40 });
});

test("one who was signed out is told so", () => {
  const problem = new FichaError(401, { code: "UNAUTHENTICATED", detail: "no" });
  const told = describe({ ...running(40), connection: "lost", problem } as JobState, around("en"));
  expect(told.text).toBe("You are signed out. Your job goes on.");
});

test("the price stands on the button", () => {
  expect(WORDS.en.generate(4)).toBe("Generate · 4 credits");
  expect(WORDS.en.generate(1)).toBe("Generate · 1 credit");
  expect(WORDS["pt-BR"].generate(1)).toBe("Gerar · 1 crédito");
  expect(WORDS["pt-BR"].credits(1_200)).toBe("1.200 créditos");
  expect(WORDS.en.credits(1_200)).toBe("1,200 credits");
});

test("a refusal is told in words, and an unknown one with the server's", () => {
  const refused = (code: string, more = {}) => new FichaError(402, { code, detail: "the server's words", ...more });
  expect(WORDS.en.refused(refused("INSUFFICIENT_CREDITS", { have: 1, need: 4 }))).toBe(
    "This costs 4 credits, and you have 1.",
  );
  expect(WORDS["pt-BR"].refused(refused("INSUFFICIENT_CREDITS", { have: 1, need: 4 }))).toBe(
    "Isto custa 4 créditos, e você tem 1.",
  );
  expect(WORDS.en.refused(refused("NEW_CODE"))).toBe("the server's words");
  expect(WORDS.en.refused(refused("RATE_LIMITED", { retry_after_s: 95 }))).toBe(
    "Too many at once. Try again in 2 min.",
  );
});

test.each([
  [0, "10 s"],
  [0.2, "10 s"],
  [10, "10 s"],
  [10.1, "20 s"],
  [38, "40 s"],
  [50, "50 s"],
  [51, "1 min"],
  [60, "1 min"],
  [61, "2 min"],
  [600, "10 min"],
])("an estimate of %d s is rounded up to %s", (seconds, text) => {
  expect(roundEstimate(seconds)).toEqual({ text, isMore: false });
});

test("more than ten minutes are more than ten minutes", () => {
  expect(roundEstimate(600.1)).toEqual({ text: "10 min", isMore: true });
  expect(roundEstimate(null)).toBeNull();
  expect(roundEstimate(Number.NaN)).toBeNull();
});

test.each([
  [[20.4, 29.1], "20–30 s"],
  [[20, 20], "20 s"],
  [[0.1, 0.4], "1 s"],
  [[65, 110], "1–2 min"],
  [[40, 90], "40 s–2 min"],
] as const)("usually %s is %s", (range, text) => {
  expect(formatRange(range)).toBe(text);
});

test("time that has passed is never negative", () => {
  expect(formatElapsed(-3)).toBe("0 s");
  expect(formatElapsed(59.9)).toBe("59 s");
  expect(formatElapsed(125)).toBe("2 min 5 s");
});

test("late is half as long again as usual, and 5 s at least", () => {
  expect(isLate(45, [20, 30])).toBe(false);
  expect(isLate(45.1, [20, 30])).toBe(true);
  expect(isLate(6, [0.5, 1])).toBe(false);
  expect(isLate(600, null)).toBe(false);
});

test("the page's language is the nearest", () => {
  expect(["pt", "pt-BR", "PT-pt", "en-GB", "fr", undefined].map(localeOf)).toEqual([
    "pt-BR",
    "pt-BR",
    "pt-BR",
    "en",
    "en",
    "en",
  ]);
});
