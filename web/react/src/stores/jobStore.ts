import { type Ficha, type FichaError, type FollowedState, hasEnded } from "@ficha/client";
import { Shared, Store } from "./store";

export interface JobSnapshot {
  /** Null until the first news. */
  state: FollowedState | null;
  /** Why nothing is told of it. */
  problem: FichaError | null;
}

/** One job, followed as long as a component shows it. */
export class JobStore extends Store<JobSnapshot> {
  readonly #following: Shared;
  #leave: (() => void) | undefined;

  constructor(client: Ficha, id: string, onEnd: () => void) {
    super({ state: null, problem: null });
    this.#following = new Shared(() => {
      const { state: last } = this.get();
      if (last && hasEnded(last)) return () => {};
      const subscription = client.subscribeToJob(id, (state) => this.change({ state, problem: state.problem }));
      subscription.done.then(onEnd, (problem: FichaError) => this.change({ problem }));
      return subscription.close;
    });
  }

  protected override begin(): void {
    this.#leave = this.#following.use();
  }

  protected override end(): void {
    this.#leave?.();
  }
}
