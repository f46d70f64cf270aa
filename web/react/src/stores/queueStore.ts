import {
  type Ficha,
  FichaError,
  type FollowedState,
  hasEnded,
  isFichaError,
  type Job,
  type JobHandle,
  type JobState,
  type Payload,
} from "@ficha/client";
import type { BalanceStore } from "./balanceStore";
import { Shared, Store } from "./store";

export interface QueueSnapshot {
  /** The work that was asked for last; null before the first, and after `clear`. */
  state: JobState | null;
  /** Why the last submit was refused, or why its job can no longer be followed. */
  error: FichaError | null;
  /** Another job of the account that is under way, in another window or from an earlier visit. */
  active: Job | null;
  isCancelling: boolean;
}

export interface QueueSubmitOptions {
  /** What it will cost, where that is known: the balance shows it at once. */
  cost?: number | undefined;
  idempotencyKey?: string | undefined;
}

type Asked = [tool: string, payload: Payload, options: QueueSubmitOptions];

const PREFIX = "ficha:job:";

/** The work of one visit: submitted, uploaded, followed to its end, and found again after the page was loaded again. */
export class QueueStore extends Store<QueueSnapshot> {
  readonly #client: Ficha;
  readonly #session: string | undefined;
  readonly #balance: BalanceStore;
  readonly #onEnd: () => void;
  readonly #looking: Shared;
  #follow: (() => void) | undefined;
  #id: string | undefined;
  #upload: AbortController | undefined;
  #last: Asked | undefined;
  #leave: (() => void) | undefined;

  constructor(client: Ficha, session: string | undefined, balance: BalanceStore, onEnd: () => void) {
    super({ state: null, error: null, active: null, isCancelling: false });
    this.#client = client;
    this.#session = session;
    this.#balance = balance;
    this.#onEnd = onEnd;
    this.#looking = new Shared(() => {
      if (this.#id) this.#followJob(this.#id);
      else void this.#find();
      const page = document;
      const seen = (): void => {
        if (page.visibilityState === "visible" && !this.#id) void this.lookForActive();
      };
      page.addEventListener("visibilitychange", seen);
      return () => {
        page.removeEventListener("visibilitychange", seen);
        this.#follow?.();
        this.#follow = undefined;
      };
    });
  }

  /** The job, or null where it was refused: `error` says why. */
  readonly submit = async (
    tool: string,
    payload: Payload = {},
    options: QueueSubmitOptions = {},
  ): Promise<JobHandle | null> => {
    this.#last = [tool, payload, options];
    const upload = new AbortController();
    this.#upload = upload;
    this.#unfollow();
    const first = { sent: 0, total: 0, share: 0 };
    const uploading = { phase: "uploading", job: null, connection: "live", problem: null } as const;
    this.change({ state: { ...uploading, upload: first }, error: null, isCancelling: false });
    const undo = options.cost ? this.#balance.expect(-options.cost) : () => {};
    try {
      const handle = await this.#client.submit(tool, payload, {
        session: this.#session,
        idempotencyKey: options.idempotencyKey,
        signal: upload.signal,
        onUpload: (told) => {
          if (this.#upload === upload) this.change({ state: { ...uploading, upload: told } });
        },
      });
      undo();
      this.#balance.settle(handle.receipt.new_balance);
      if (this.#upload === upload) {
        this.#take(handle.state);
        this.#followJob(handle.id);
        if (this.get().isCancelling) await this.#cancel(handle.id);
      }
      return handle;
    } catch (error) {
      undo();
      if (this.#upload !== upload) return null;
      const refused = upload.signal.aborted ? null : asFichaError(error);
      this.change({ state: null, error: refused, isCancelling: false });
      if (isFichaError(refused, "ACTIVE_JOB_EXISTS")) void this.lookForActive();
      return null;
    } finally {
      if (this.#upload === upload) this.#upload = undefined;
    }
  };

  /** The same again. */
  readonly retry = async (): Promise<JobHandle | null> => (this.#last ? this.submit(...this.#last) : null);

  /** Stops the upload, or cancels the job. Its credits come back. */
  readonly cancel = async (): Promise<void> => {
    const { state, isCancelling } = this.get();
    if (state?.phase === "uploading") {
      // While files are sent nothing exists. Once the submit itself is sent, the job may: then it is cancelled.
      if (state.upload.total > 0 && state.upload.share < 1) this.#upload?.abort();
      else this.change({ isCancelling: true });
    }
    if (!state?.job || hasEnded(state) || isCancelling) return;
    this.change({ isCancelling: true });
    await this.#cancel(state.job.id);
  };

  async #cancel(id: string): Promise<void> {
    try {
      const finish = await this.#client.cancelJob(id);
      this.#balance.settle(finish.new_balance);
    } catch (error) {
      this.change({ isCancelling: false, error: asFichaError(error) });
    }
  }

  /** Shows nothing any more. A job that is under way goes on. */
  readonly clear = (): void => {
    this.#unfollow();
    this.#remember(undefined);
    this.change({ state: null, error: null, isCancelling: false });
  };

  /** Shows a job that is there already, such as the active one. */
  readonly show = (job: Job): void => {
    this.#unfollow();
    this.change({ error: null, active: null, isCancelling: false });
    this.#followJob(job.id);
  };

  readonly lookForActive = async (): Promise<void> => {
    try {
      const active = await this.#client.checkActiveJob();
      this.change({ active: active && active.id !== this.#id ? active : null });
    } catch {
      // Nothing is said of it.
    }
  };

  /** What this visit had under way before the page was loaded again; else what the account has. */
  async #find(): Promise<void> {
    const remembered = this.#remembered();
    if (remembered) return this.#followJob(remembered, true);
    await this.lookForActive();
    const { active, state } = this.get();
    const isOwn = active && (this.#session === undefined || active.session === this.#session);
    if (isOwn && state === null) this.show(active);
  }

  #followJob(id: string, isRemembered = false): void {
    this.#follow?.();
    this.#id = id;
    this.#remember(id);
    const subscription = this.#client.subscribeToJob(id, (state) => {
      if (this.#id === id) this.#take(state);
    });
    this.#follow = subscription.close;
    subscription.done.then(
      () => this.#onEnd(),
      (problem: FichaError) => {
        if (this.#id !== id) return;
        this.#remember(undefined);
        // A job that was remembered and is gone is nobody's concern.
        if (!isRemembered || problem.code !== "NOT_FOUND") this.change({ error: problem });
      },
    );
  }

  #take(state: FollowedState): void {
    const { active, isCancelling } = this.get();
    this.change({
      state,
      active: active?.id === state.job.id ? null : active,
      isCancelling: isCancelling && !hasEnded(state),
    });
  }

  #unfollow(): void {
    this.#follow?.();
    this.#follow = undefined;
    this.#id = undefined;
  }

  #remembered(): string | undefined {
    try {
      return sessionStorage.getItem(PREFIX + (this.#session ?? "")) ?? undefined;
    } catch {
      return undefined;
    }
  }

  #remember(id: string | undefined): void {
    const name = PREFIX + (this.#session ?? "");
    try {
      if (id === undefined) sessionStorage.removeItem(name);
      else sessionStorage.setItem(name, id);
    } catch {
      // Then it is found only while it is active.
    }
  }

  protected override begin(): void {
    this.#leave = this.#looking.use();
  }

  protected override end(): void {
    this.#leave?.();
  }
}

function asFichaError(error: unknown): FichaError {
  if (error instanceof FichaError) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new FichaError(0, { code: "CLIENT", detail, retryable: false }, undefined, error);
}
