// Following one job: a stream that is opened again whenever it breaks, and questions every 3 seconds while there is none.
import { dated } from "./dates";
import { FichaError } from "./errors";
import type { Http } from "./http";
import { watchPage } from "./page";
import { type Message, SseParser } from "./sse";
import { type Connection, type FinalState, type FollowedState, hasEnded, stateOf } from "./states";
import { backoff, pause, type Times } from "./times";
import type { Job, JobEvent, Page } from "./types";

export type JobListener = (state: FollowedState) => void;

/** After these there is nothing to wait for: the job does not exist, or may not be seen. */
const FINAL_ANSWERS: ReadonlySet<number> = new Set([400, 401, 403, 404, 409, 410, 422]);
/** Events after which the job waits again. */
const BACK_IN_QUEUE: ReadonlySet<string> = new Set(["retried", "recovered", "returned"]);

/** Followers of one client: one for each job, however many listen, and few streams at a time. */
export class Followers {
  readonly #found = new Map<string, Follower>();
  readonly #usual = new Map<string, Promise<readonly [number, number] | null>>();
  #streams = 0;

  constructor(
    readonly http: Http,
    readonly times: Times,
    readonly maxStreams: number,
  ) {}

  of(id: string, job?: Job): Follower {
    let found = this.#found.get(id);
    if (!found) {
      found = new Follower(this, id);
      this.#found.set(id, found);
    }
    if (job) found.see(job);
    return found;
  }

  /** The follower, if somebody follows the job. */
  known(id: string): Follower | undefined {
    return this.#found.get(id);
  }

  forget(follower: Follower): void {
    if (this.#found.get(follower.id) === follower) this.#found.delete(follower.id);
  }

  /** How long the account's last runs of a tool took. Asked once a minute at most; null where nobody says. */
  usual(tool: string): Promise<readonly [number, number] | null> {
    let found = this.#usual.get(tool);
    if (!found) {
      const query = { tool, status: "completed", limit: 20 };
      found = this.http.json<Page<Job>>("GET", "/api/jobs", { query }).then(
        ({ items }) => usualRange(items as Job[]),
        () => null,
      );
      this.#usual.set(tool, found);
      setTimeout(() => this.#usual.delete(tool), this.times.usual);
    }
    return found;
  }

  /** Takes one of the few streams. A browser has six connections to a site, for all its windows together. */
  takeStream(): (() => void) | undefined {
    if (this.#streams >= this.maxStreams) return undefined;
    this.#streams += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#streams -= 1;
      isTaken = false;
    };
  }
}

export class Follower {
  state: FollowedState | null = null;
  /** The end of the job; rejected only if the server refuses to tell. */
  readonly done: Promise<FinalState>;

  readonly #all: Followers;
  readonly #http: Http;
  readonly #times: Times;
  readonly #path: string;
  readonly #listeners = new Set<JobListener>();
  #settle!: (state: FinalState) => void;
  #refuse!: (error: FichaError) => void;

  #job: Job | null = null;
  #connection: Connection = "live";
  #problem: FichaError | null = null;
  #isOver = false;
  #isOvertaken = false;
  #of: number | null = null;
  #usual: readonly [number, number] | null = null;

  /** The number of the last event, where a stream goes on. */
  #last = 0;
  /** How often the job changed its status: a job that was read before that is old. */
  #moves = 0;
  #isLive = false;
  #run: AbortController | undefined;
  /** The run that is asked for in place of a stream. */
  #polling: AbortSignal | undefined;
  #attempt: AbortController | undefined;
  #giveBack: (() => void) | undefined;
  #unwatch: (() => void) | undefined;
  #losing: ReturnType<typeof setTimeout> | undefined;
  #lastReadAt = 0;
  #refreshing: Promise<void> | undefined;
  #lineAskedAt = 0;
  #hasAskedUsual = false;

  constructor(
    all: Followers,
    readonly id: string,
  ) {
    this.#all = all;
    this.#http = all.http;
    this.#times = all.times;
    this.#path = `/api/jobs/${encodeURIComponent(id)}`;
    this.done = new Promise((resolve, reject) => {
      this.#settle = resolve;
      this.#refuse = reject;
    });
    // Whoever waits for it hears of it. Nobody has to.
    this.done.catch(() => {});
  }

  /** Follows the job as long as anybody listens. A state that is known is told at once. */
  listen(listener: JobListener): () => void {
    // Each listener counts by itself, also one that is added twice.
    const own: JobListener = (state) => listener(state);
    this.#listeners.add(own);
    if (this.state) own(this.state);
    if (!this.#isOver && !this.#run) this.#start();
    return () => {
      if (this.#listeners.delete(own) && this.#listeners.size === 0) {
        this.#stop();
        // What is followed again later begins anew, with what is true then.
        this.#all.forget(this);
      }
    };
  }

  /** Takes a job that was read by itself. */
  see(job: Job): void {
    if (this.#isOver) return;
    this.#take(job);
    if (this.state && hasEnded(this.state)) this.#end(this.state);
  }

  /** Reads the job anew, soon. Many calls lead to one request. */
  refresh(): void {
    this.#refreshing ??= this.#readAgain().finally(() => {
      this.#refreshing = undefined;
    });
  }

  #start(): void {
    const run = new AbortController();
    this.#run = run;
    this.#unwatch = watchPage(
      {
        sleep: () => this.#pauseRun(),
        wake: () => {
          this.#pauseRun();
          this.#resume();
        },
      },
      this.#times.hidden,
    );
    this.#begin(run);
  }

  #begin(run: AbortController): void {
    void this.#stream(run.signal).catch((error: unknown) => {
      if (!run.signal.aborted) throw error;
    });
  }

  #pauseRun(): void {
    this.#run?.abort();
    this.#attempt?.abort();
    this.#giveBack?.();
    this.#isLive = false;
    this.#disarm();
  }

  #resume(): void {
    if (this.#isOver) return;
    this.#run = new AbortController();
    this.#begin(this.#run);
  }

  #stop(): void {
    this.#unwatch?.();
    this.#unwatch = undefined;
    this.#pauseRun();
    this.#run = undefined;
  }

  /** Opens streams, one after another, until the job has ended or nobody listens. */
  async #stream(run: AbortSignal): Promise<void> {
    let failures = 0;
    while (!run.aborted && !this.#isOver) {
      const began = Date.now();
      let wait: number | undefined;
      const giveBack = this.#all.takeStream();
      this.#giveBack = giveBack;
      this.#fallBack(run, giveBack ? this.#times.beforePolling : 0);
      try {
        if (giveBack) wait = await this.#streamOnce();
        else wait = this.#times.poll;
      } catch (error) {
        if (run.aborted || this.#isOver) return;
        if (error instanceof FichaError) {
          if (FINAL_ANSWERS.has(error.status)) return this.#giveUp(error);
          if (error.retryAfter !== undefined) wait = error.retryAfter * 1_000;
        }
      } finally {
        giveBack?.();
        if (!run.aborted && this.#isLive) {
          this.#isLive = false;
          this.#arm();
        }
      }
      if (run.aborted || this.#isOver) return;
      this.#fallBack(run, this.#times.beforePolling);
      // One that breaks again and again is not opened again at once, though each time it said something first.
      failures = Date.now() - began > this.#times.backoff[1] ? 0 : failures + 1;
      await pause(wait ?? backoff(Math.max(0, failures - 1), this.#times.backoff), run);
    }
  }

  /** One stream, to its end. Gives the pause before the next, where the server says how long. */
  async #streamOnce(): Promise<number | undefined> {
    const attempt = new AbortController();
    this.#attempt = attempt;
    let timer = setTimeout(() => attempt.abort(), this.#times.connect);
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (this.#last) headers["Last-Event-ID"] = String(this.#last);
      const response = await this.#http.send("GET", `${this.#path}/events`, { headers, signal: attempt.signal });
      const token = await this.#http.token();
      if (!response.body) throw new Error("the stream has no body");
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const parser = new SseParser();
      const reading = { isCaughtUp: false, wait: undefined as number | undefined, token };
      while (!this.#isOver) {
        clearTimeout(timer);
        timer = setTimeout(() => attempt.abort(), this.#times.stall);
        const { done, value } = await reader.read();
        if (done) break;
        for (const message of parser.push(decoder.decode(value, { stream: true }))) this.#read(message, reading);
      }
      return reading.wait;
    } finally {
      clearTimeout(timer);
      attempt.abort();
    }
  }

  #read(message: Message, reading: { isCaughtUp: boolean; wait: number | undefined; token: string | undefined }): void {
    if (this.#isOver) return;
    if (message.id && message.event !== "end") {
      const number = Number(message.id);
      if (number <= this.#last) return;
      this.#last = number;
    }
    switch (message.event) {
      case "job":
        reading.isCaughtUp = true;
        this.#heard("live");
        this.#take(dated(JSON.parse(message.data)) as Job);
        return;
      case "end":
        this.see(dated(JSON.parse(message.data)) as Job);
        return;
      case "reconnect":
        reading.wait = message.retry ?? 1_000;
        return;
      case "refused": {
        // The credential has ended. With another one the stream goes on where it was.
        if (!this.#http.renew(reading.token)) throw refusal(message.data);
        reading.wait = 0;
        return;
      }
      case "position":
        this.#patch(JSON.parse(message.data) as Partial<Job>);
        return;
      default:
        // What happened before the job was told is in the job already.
        if (reading.isCaughtUp) this.#happen(dated(JSON.parse(message.data)) as JobEvent);
    }
  }

  #happen(event: JobEvent): void {
    const { progress, epoch } = event.data as { progress?: number; epoch?: number };
    if (event.kind === "claimed") {
      this.#moves += 1;
      const none = { position: null, estimated_wait_s: null, waiting_for: null };
      this.#patch({ status: "starting", locked_at: event.at, ...(epoch && { epoch, progress: 0 }), ...none });
    } else if (event.kind === "started") {
      this.#moves += 1;
      this.#patch({ status: "running" });
    } else if (BACK_IN_QUEUE.has(event.kind)) {
      this.#moves += 1;
      this.refresh();
    } else {
      if (progress !== undefined) this.#patch({ progress });
      // Events say that there is more of the result, not what.
      if (event.kind === "partial") this.refresh();
    }
  }

  /** Asks for the job every 3 seconds, from now or in a while on, until a stream is live. */
  #fallBack(run: AbortSignal, after: number): void {
    if (this.#polling === run) return;
    this.#polling = run;
    this.#arm();
    this.#poll(run, after).catch((error: unknown) => {
      if (!run.aborted) throw error;
    });
  }

  async #poll(run: AbortSignal, after: number): Promise<void> {
    let tag: string | null = null;
    let wait = after;
    try {
      for (;;) {
        await pause(wait, run);
        if (this.#isLive || this.#isOver) return;
        this.#arm();
        wait = this.#times.poll;
        const moves = this.#moves;
        try {
          const headers: Record<string, string> = tag ? { "If-None-Match": tag } : {};
          const response = await this.#http.send("GET", this.#path, { headers, signal: run });
          const job = response.status === 304 ? undefined : (dated(JSON.parse(await response.text())) as Job);
          if (run.aborted || this.#isLive) return;
          tag = response.headers.get("etag") ?? tag;
          this.#heard("polling");
          if (job && moves === this.#moves) this.see(job);
        } catch (error) {
          if (run.aborted || this.#isOver) return;
          if (error instanceof FichaError) {
            if (FINAL_ANSWERS.has(error.status)) return this.#giveUp(error);
            wait = Math.max(wait, (error.retryAfter ?? 0) * 1_000);
          }
        }
      }
    } finally {
      if (this.#polling === run) this.#polling = undefined;
    }
  }

  async #readAgain(): Promise<void> {
    const run = this.#run?.signal;
    try {
      for (;;) {
        await pause(Math.max(0, this.#lastReadAt + this.#times.refresh - Date.now()), run);
        this.#lastReadAt = Date.now();
        const moves = this.#moves;
        const job = await this.#http.json<Job>("GET", this.#path, { signal: run });
        if (run?.aborted) return;
        if (moves === this.#moves) return this.see(job as Job);
      }
    } catch {
      // The stream, or the next question, tells.
    }
  }

  /** News came. */
  #heard(connection: "live" | "polling"): void {
    this.#isLive = connection === "live";
    this.#disarm();
    if (this.#connection === connection) return;
    this.#connection = connection;
    this.#tell();
  }

  /** From now on, no news for a while means that the connection is lost. */
  #arm(): void {
    this.#losing ??= setTimeout(() => {
      if (this.#isLive) return;
      this.#connection = "lost";
      this.#tell();
    }, this.#times.lost);
  }

  #disarm(): void {
    clearTimeout(this.#losing);
    this.#losing = undefined;
  }

  #patch(fields: Partial<Job>): void {
    if (this.#job) this.#take({ ...this.#job, ...fields });
  }

  #take(job: Job): void {
    const before = this.#job;
    if (before && before.epoch === job.epoch) {
      if (job.position !== null && before.position !== null && job.position !== before.position) {
        this.#isOvertaken = job.position > before.position;
      }
      // A job that was asked for may be older than the last event.
      if (job.progress < before.progress) job = { ...job, progress: before.progress };
    } else this.#isOvertaken = false;
    this.#job = job;
    this.#tell();
    this.#askAside();
  }

  #tell(): void {
    if (!this.#job) return;
    this.state = stateOf(this.#job, {
      connection: this.#connection,
      problem: this.#problem,
      of: this.#of,
      isOvertaken: this.#isOvertaken,
      usual: this.#usual,
      clockAhead: this.#http.clockAhead,
    });
    for (const listener of [...this.#listeners]) {
      try {
        listener(this.state);
      } catch (error) {
        // A listener's mistake is its own: the others are told, and the browser reports it.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  #end(state: FinalState): void {
    this.#isOver = true;
    this.#stop();
    this.#settle(state);
    this.#all.forget(this);
  }

  #giveUp(error: FichaError): void {
    this.#isOver = true;
    this.#stop();
    this.#problem = error;
    this.#connection = "lost";
    this.#tell();
    this.#refuse(error);
    this.#all.forget(this);
  }

  /** Asks for what the job itself does not say: how long the line is, how long such a run usually takes. */
  #askAside(): void {
    const { state } = this;
    if (!this.#run || this.#isOver) return;
    if (state?.phase === "waiting" && state.wait.position !== null) {
      if (Date.now() - this.#lineAskedAt < this.#times.lineLength) return;
      this.#lineAskedAt = Date.now();
      void this.#askLine(state.job.pool);
    } else if (state?.phase === "running" && !state.job.parts && !this.#hasAskedUsual) {
      // (The parts of a split request may run one after another: no single run says how long it takes.)
      this.#hasAskedUsual = true;
      void this.#askUsual(state.job.tool);
    }
  }

  async #askLine(pool: string): Promise<void> {
    try {
      type Check = { pools: { ready: number }[] };
      const { pools } = await this.#http.json<Check>("GET", "/api/queue/check", { query: { pool } });
      this.#of = pools[0]?.ready ?? null;
      if (!this.#isOver) this.#tell();
    } catch {
      // A token for one job may not ask. The place alone is shown then.
      this.#lineAskedAt = Infinity;
    }
  }

  async #askUsual(tool: string): Promise<void> {
    this.#usual = await this.#all.usual(tool);
    if (this.#usual && !this.#isOver) this.#tell();
  }
}

/** Where the middle half of the runs lies, in seconds; null for fewer than three of them. */
function usualRange(jobs: Job[]): readonly [number, number] | null {
  const runs = jobs
    .flatMap((job) => (job.started_at && job.finished_at ? [+job.finished_at - +job.started_at] : []))
    .sort((one, other) => one - other);
  if (runs.length < 3) return null;
  const at = (share: number): number => (runs[Math.round(share * (runs.length - 1))] ?? 0) / 1_000;
  return [at(0.25), at(0.75)];
}

function refusal(data: string): FichaError {
  const problem = JSON.parse(data) as { code: string; detail: string; status?: number };
  return new FichaError(problem.status ?? 401, problem);
}
