// Every word that the parts say, in each language. A language in which one is missing does not compile.
import type { FichaError } from "@ficha/client";
import { formatElapsed, formatRange, roundEstimate } from "./rounding";

export type Locale = "en" | "pt-BR";

export interface Words {
  /** The button that starts the work, with its price where it is known. */
  generate(cost: number | null): string;
  balanceAfter(balance: number): string;
  credits(count: number): string;

  sending: string;
  uploading(percent: number): string;
  /** The place in line, of how many, and about how many seconds; null where one is not known. */
  place(position: number, of: number | null, estimate: number | null): string;
  /** Waiting, with no place to tell. */
  waiting: string;
  overtaken: string;
  poolFull: string;
  accountLimit(atOnce: number | null): string;
  /** `attempt` is null for a job that was to start at this time from the beginning. */
  schedule(at: Date, attempt: number | null, of: number): string;
  poolPaused: string;
  equalJob: string;

  /** What is being made, for "Making your picture, 40 %". */
  making: string;
  running(making: string, percent: number): string;
  /** Without progress: how long it runs, and how long it usually does. */
  elapsed(seconds: number, usual: readonly [number, number] | null): string;
  starting: string;
  late: string;

  lost: string;
  signedOut: string;
  notFound: string;

  done: string;
  donePartly(delivered: number, of: number, refunded: number): string;
  failed(why: string | null, refunded: number, balance: number | null): string;
  /** `why` is null where its owner cancelled it and gave no reason. */
  cancelled(why: string | null, refunded: number): string;

  cancel: string;
  cancelling: string;
  tryAgain: string;
  seeLedger: string;
  seePlans: string;
  show: string;
  activeJob(tool: string): string;
  progressLabel: string;
  result(number: number): string;
  resultsLabel: string;
  download(name: string): string;
  /** What is said of a submit that was refused. */
  refused(error: FichaError): string;
}

const EN: Words = {
  generate: (cost) => (cost === null ? "Generate" : `Generate · ${EN.credits(cost)}`),
  balanceAfter: (balance) => `${EN.credits(balance)} left after this`,
  credits: (count) => counted("en", count, { one: "credit", other: "credits" }),

  sending: "Sending…",
  uploading: (percent) => `Uploading ${percent} %`,
  place: (position, of, estimate) => {
    const about = roundEstimate(estimate);
    if (!about) return `You are #${number("en", position)}. No estimate yet.`;
    const place = `You are #${number("en", position)}${of === null ? "" : ` of ${number("en", of)}`}.`;
    return about.isMore ? `${place} More than ${about.text}.` : `${place} About ${about.text}.`;
  },
  waiting: "You are in line.",
  overtaken: "A higher plan went ahead.",
  poolFull: "You are next. All machines are busy.",
  accountLimit: (atOnce) =>
    `${atOnce === null ? "" : `Your plan runs ${number("en", atOnce)} at once. `}This starts when one of yours ends.`,
  schedule: (at, attempt, of) =>
    attempt === null ? `Starts at ${clock("en", at)}.` : `Next try at ${clock("en", at)} (${attempt} of ${of}).`,
  poolPaused: "Paused by the operator. Your place is kept.",
  equalJob: "The same work is under way. You get its result.",

  making: "Making your picture",
  running: (making, percent) => `${making}, ${percent} %`,
  elapsed: (seconds, usual) =>
    usual ? `${formatElapsed(seconds)}. Usually ${formatRange(usual)}.` : `${formatElapsed(seconds)}.`,
  starting: "Your turn. It is starting.",
  late: "Longer than usual. Still working.",

  lost: "Connection lost. Your job goes on.",
  signedOut: "You are signed out. Your job goes on.",
  notFound: "This job cannot be found.",

  done: "Done.",
  donePartly: (delivered, of, refunded) =>
    `${number("en", delivered)} of ${number("en", of)} made${refunded ? `, ${EN.credits(refunded)} returned` : ""}.`,
  failed: (why, refunded, balance) =>
    [why ? `It failed: ${sentence(why)}` : "It failed.", returnedAnd(EN, refunded, balance, "returned", "you have")]
      .filter(Boolean)
      .join(" "),
  cancelled: (why, refunded) =>
    [why ? `Cancelled: ${sentence(why)}` : "Cancelled.", refunded ? `${EN.credits(refunded)} returned.` : ""]
      .filter(Boolean)
      .join(" "),

  cancel: "Cancel",
  cancelling: "Cancelling…",
  tryAgain: "Try again",
  seeLedger: "See your credits",
  seePlans: "See the plans",
  show: "Show it",
  activeJob: (tool) => `A job of yours is under way: ${tool}.`,
  progressLabel: "Progress",
  result: (count) => `Result ${count}`,
  resultsLabel: "Results",
  download: (name) => `Download ${name}`,
  refused: (error) => {
    const { have, need } = error.members;
    switch (error.code) {
      case "INSUFFICIENT_CREDITS":
        return typeof have === "number" && typeof need === "number"
          ? `This costs ${EN.credits(need)}, and you have ${number("en", have)}.`
          : "You do not have enough credits for this.";
      case "ACTIVE_JOB_EXISTS":
        return "Your plan runs one job at a time, and one is under way.";
      case "QUOTA_EXCEEDED":
        return "Your plan allows no more jobs or files at once. Wait until one has ended.";
      case "RATE_LIMITED":
        return error.retryAfter
          ? `Too many at once. Try again in ${roundEstimate(error.retryAfter)?.text}.`
          : "Too many at once. Try again in a while.";
      case "NETWORK":
        return "The server cannot be reached. Nothing is lost: try again.";
      case "OVERLOADED":
      case "PROVIDER_DOWN":
        return "Too busy right now, and nothing was charged. Try again in a while.";
      case "UNAUTHENTICATED":
        return "You are signed out. Sign in and try again.";
      default:
        return error.detail;
    }
  },
};

const PT_BR: Words = {
  generate: (cost) => (cost === null ? "Gerar" : `Gerar · ${PT_BR.credits(cost)}`),
  balanceAfter: (balance) => `Depois disso, restam ${PT_BR.credits(balance)}`,
  credits: (count) => counted("pt-BR", count, { one: "crédito", other: "créditos" }),

  sending: "Enviando…",
  uploading: (percent) => `Enviando ${percent} %`,
  place: (position, of, estimate) => {
    const about = roundEstimate(estimate);
    if (!about) return `Você é o nº ${number("pt-BR", position)}. Ainda sem previsão.`;
    const place = `Você é o nº ${number("pt-BR", position)}${of === null ? "" : ` de ${number("pt-BR", of)}`}.`;
    return about.isMore ? `${place} Mais de ${about.text}.` : `${place} Cerca de ${about.text}.`;
  },
  waiting: "Você está na fila.",
  overtaken: "Um plano superior passou à frente.",
  poolFull: "Você é o próximo. Todas as máquinas estão ocupadas.",
  accountLimit: (atOnce) =>
    atOnce === null
      ? "Este começa quando um dos seus terminar."
      : `Seu plano executa ${number("pt-BR", atOnce)} por vez. Este começa quando um dos seus terminar.`,
  schedule: (at, attempt, of) =>
    attempt === null
      ? `Começa às ${clock("pt-BR", at)}.`
      : `Próxima tentativa às ${clock("pt-BR", at)} (${attempt} de ${of}).`,
  poolPaused: "Pausado pelo operador. Seu lugar está guardado.",
  equalJob: "O mesmo trabalho já está em andamento. Você recebe o resultado dele.",

  making: "Criando sua imagem",
  running: (making, percent) => `${making}, ${percent} %`,
  elapsed: (seconds, usual) =>
    usual ? `${formatElapsed(seconds)}. Normalmente ${formatRange(usual)}.` : `${formatElapsed(seconds)}.`,
  starting: "É a sua vez. Está começando.",
  late: "Mais demorado que o normal. Ainda em andamento.",

  lost: "Conexão perdida. Seu trabalho continua.",
  signedOut: "Sua sessão terminou. Seu trabalho continua.",
  notFound: "Este trabalho não foi encontrado.",

  done: "Pronto.",
  donePartly: (delivered, of, refunded) =>
    `${number("pt-BR", delivered)} de ${number("pt-BR", of)} ${delivered === 1 ? "feito" : "feitos"}${
      refunded ? `, ${returned(refunded)}` : ""
    }.`,
  failed: (why, refunded, balance) =>
    [
      why ? `Falhou: ${sentence(why)}` : "Falhou.",
      refunded
        ? `${capital(returned(refunded))}${balance === null ? "" : `, você tem ${number("pt-BR", balance)}`}.`
        : "",
    ]
      .filter(Boolean)
      .join(" "),
  cancelled: (why, refunded) =>
    [
      why ? `Cancelado: ${sentence(inPortuguese(why))}` : "Cancelado.",
      refunded ? `${capital(returned(refunded))}.` : "",
    ]
      .filter(Boolean)
      .join(" "),

  cancel: "Cancelar",
  cancelling: "Cancelando…",
  tryAgain: "Tentar de novo",
  seeLedger: "Ver seus créditos",
  seePlans: "Ver os planos",
  show: "Mostrar",
  activeJob: (tool) => `Um trabalho seu está em andamento: ${tool}.`,
  progressLabel: "Progresso",
  result: (count) => `Resultado ${count}`,
  resultsLabel: "Resultados",
  download: (name) => `Baixar ${name}`,
  refused: (error) => {
    const { have, need } = error.members;
    switch (error.code) {
      case "INSUFFICIENT_CREDITS":
        return typeof have === "number" && typeof need === "number"
          ? `Isto custa ${PT_BR.credits(need)}, e você tem ${number("pt-BR", have)}.`
          : "Você não tem créditos suficientes para isto.";
      case "ACTIVE_JOB_EXISTS":
        return "Seu plano executa um trabalho por vez, e há um em andamento.";
      case "QUOTA_EXCEEDED":
        return "Seu plano não permite mais trabalhos ou arquivos ao mesmo tempo. Espere um terminar.";
      case "RATE_LIMITED":
        return error.retryAfter
          ? `Muitos de uma vez. Tente de novo em ${roundEstimate(error.retryAfter)?.text}.`
          : "Muitos de uma vez. Tente de novo daqui a pouco.";
      case "NETWORK":
        return "Não foi possível chegar ao servidor. Nada se perdeu: tente de novo.";
      case "OVERLOADED":
      case "PROVIDER_DOWN":
        return "Muito ocupado agora, e nada foi cobrado. Tente de novo daqui a pouco.";
      case "UNAUTHENTICATED":
        return "Sua sessão terminou. Entre e tente de novo.";
      default:
        return error.detail;
    }
  },
};

export const WORDS: Readonly<Record<Locale, Words>> = { en: EN, "pt-BR": PT_BR };

/** The language that is nearest to what the page or the browser asks for. */
export function localeOf(asked: string | undefined): Locale {
  return asked?.toLowerCase().startsWith("pt") ? "pt-BR" : "en";
}

function counted(locale: Locale, count: number, forms: { one: string; other: string }): string {
  const form = new Intl.PluralRules(locale).select(count) === "one" ? forms.one : forms.other;
  return `${number(locale, count)} ${form}`;
}

function number(locale: Locale, value: number): string {
  return new Intl.NumberFormat(locale).format(value);
}

function clock(locale: Locale, at: Date): string {
  // 14:05, in every language: it stands in the middle of a sentence.
  return new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(at);
}

function returnedAnd(words: Words, refunded: number, balance: number | null, back: string, have: string): string {
  if (!refunded) return "";
  return `${words.credits(refunded)} ${back}${balance === null ? "" : `, ${have} ${number("en", balance)}`}.`;
}

function returned(refunded: number): string {
  const is = new Intl.PluralRules("pt-BR").select(refunded) === "one" ? "devolvido" : "devolvidos";
  return `${PT_BR.credits(refunded)} ${is}`;
}

/** The server's own reasons are in English; those of people stay as they wrote them. */
function inPortuguese(why: string): string {
  if (why === "the page was left") return "a página foi fechada";
  if (why === "the page was silent for too long") return "a página não deu sinal por muito tempo";
  const [, count, unit] = /^it waited longer than ([\d.]+) (second|minute|hour)s?$/.exec(why) ?? [];
  if (!count || !unit) return why;
  const name = { second: "segundo", minute: "minuto", hour: "hora" }[unit];
  return `esperou mais de ${number("pt-BR", Number(count))} ${name}${count === "1" ? "" : "s"}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** With one full stop, whatever the provider wrote. */
function sentence(text: string): string {
  const bare = text.trim().replace(/[.\s]+$/, "");
  return /[!?…]$/.test(bare) ? bare : `${bare}.`;
}
