/**
 * Why a call failed.
 *
 * code: the server's stable code, such as `INSUFFICIENT_CREDITS`; `NETWORK` where no answer came, and `HTTP_502` and the
 *   like where something on the way answered.
 * detail: for people; says what to do.
 * retryable: whether the same call may pass later with nothing else done.
 * retryAfter: in how many seconds, where the server says so.
 * position: the character of a text that was wrong, where one was.
 * members: what else the problem says, such as `have` and `need`.
 */
export class FichaError extends Error {
  override readonly name = "FichaError";
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  readonly retryable: boolean;
  readonly retryAfter: number | undefined;
  readonly position: number | undefined;
  readonly members: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    problem: { code: string; detail: string; retryable?: boolean; [member: string]: unknown },
    retryAfter?: number,
    cause?: unknown,
  ) {
    super(problem.detail, cause === undefined ? undefined : { cause });
    const { code, detail, retryable, retry_after_s, position, ...members } = problem;
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryable = retryable ?? RETRYABLE.has(status);
    this.retryAfter = retryAfter ?? (typeof retry_after_s === "number" ? retry_after_s : undefined);
    this.position = typeof position === "number" ? position : undefined;
    this.members = members;
  }
}

/** Statuses that pass by themselves, where nobody says more: no answer, and a proxy without a server behind it. */
const RETRYABLE: ReadonlySet<number> = new Set([0, 408, 429, 502, 503, 504]);

/** No answer came: the network is away, or the server. */
export function networkError(cause: unknown): FichaError {
  return new FichaError(0, { code: "NETWORK", detail: "The server cannot be reached." }, undefined, cause);
}

/** The error that an answer stands for; its body is a problem (RFC 9457), unless somebody on the way wrote it. */
export function answeredError(status: number, body: string, retryAfter: string | null): FichaError {
  const told = problemIn(body) ?? { code: `HTTP_${status}`, detail: `The server answered with the status ${status}.` };
  return new FichaError(status, told, secondsOf(retryAfter));
}

function problemIn(body: string): { code: string; detail: string } | undefined {
  try {
    const found: unknown = JSON.parse(body);
    if (found !== null && typeof found === "object" && "code" in found && typeof found.code === "string") {
      return { detail: found.code, ...found, code: found.code };
    }
  } catch {
    // Not JSON: a proxy's page.
  }
  return undefined;
}

/** `Retry-After` is a number of seconds, or a date. */
function secondsOf(text: string | null): number | undefined {
  if (!text) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}
