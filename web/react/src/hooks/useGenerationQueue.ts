import {
  type FichaError,
  hasEnded,
  type Job,
  type JobHandle,
  type JobState,
  type Payload,
  type WaitReason,
} from "@ficha/client";
import { useSyncExternalStore } from "react";
import { useProvided } from "../provider";
import type { QueueSubmitOptions } from "../stores/queueStore";

export interface GenerationQueue {
  /** Everything, as one of a few phases: give it to `<QueuePosition>`. Null before the first submit. */
  state: JobState | null;
  status: JobState["phase"] | "idle";
  position: number | null;
  /** About how many seconds it still waits. */
  estimatedWait: number | null;
  waitingFor: WaitReason | null;
  progress: number | null;
  /** What there is of the result so far. */
  partial: unknown;
  result: unknown;
  /** Why the submit was refused, or why the job is no longer followed. What a tool's failure says is in `state`. */
  error: FichaError | null;
  /** Another job of the account that is under way. */
  active: Job | null;
  /** Whether something is being sent, waits or runs. */
  isBusy: boolean;
  isCancelling: boolean;
  /** The job, or null where it was refused: `error` says why. */
  submit(tool: string, payload?: Payload, options?: QueueSubmitOptions): Promise<JobHandle | null>;
  /** The last submit again. */
  retry(): Promise<JobHandle | null>;
  cancel(): Promise<void>;
  /** Shows nothing any more; a job that is under way goes on. */
  clear(): void;
  /** Shows a job that is there already. */
  show(job: Job): void;
}

/** The work of this visit. All components with the same session see the same. */
export function useGenerationQueue({ session }: { session?: string | undefined } = {}): GenerationQueue {
  const store = useProvided().stores.queue(session);
  const { state, error, active, isCancelling } = useSyncExternalStore(store.subscribe, store.get, store.get);
  const wait = state?.phase === "waiting" ? state.wait : null;
  const running = state?.phase === "running" ? state : null;
  return {
    state,
    status: state?.phase ?? "idle",
    position: wait?.position ?? null,
    estimatedWait: wait?.estimate ?? null,
    waitingFor: wait?.reason ?? null,
    progress: running?.progress ?? null,
    partial: running?.partial ?? null,
    result: state?.phase === "done" ? state.job.result : null,
    error,
    active,
    isBusy: state !== null && !hasEnded(state) && !state.problem,
    isCancelling,
    submit: store.submit,
    retry: store.retry,
    cancel: store.cancel,
    clear: store.clear,
    show: store.show,
  };
}
