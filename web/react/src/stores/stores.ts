import type { Ficha, LibraryQuery } from "@ficha/client";
import { BalanceStore } from "./balanceStore";
import { JobStore } from "./jobStore";
import { LibraryStore, ToolsStore } from "./listStores";
import { QueueStore } from "./queueStore";
import { Shared } from "./store";
import { attend } from "./visit";

/** All that the hooks of one client share. Keys are texts, so that a query written anew in each render is the same. */
export class Stores {
  readonly balance: BalanceStore;
  readonly tools: ToolsStore;
  readonly #jobs = new Map<string, JobStore>();
  readonly #queues = new Map<string, QueueStore>();
  readonly #libraries = new Map<string, LibraryStore>();
  readonly #visits = new Map<string, Shared>();
  readonly #onWork = new Set<() => void>();

  constructor(readonly client: Ficha) {
    this.balance = new BalanceStore(client);
    this.tools = new ToolsStore(client);
  }

  job(id: string): JobStore {
    return found(this.#jobs, id, () => new JobStore(this.client, id, this.#ended));
  }

  queue(session: string | undefined): QueueStore {
    const made = () => new QueueStore(this.client, session, this.balance, this.#ended);
    return found(this.#queues, session ?? "", made);
  }

  library(query: LibraryQuery): LibraryStore {
    const onWork = (listener: () => void) => {
      this.#onWork.add(listener);
      return () => this.#onWork.delete(listener);
    };
    return found(this.#libraries, JSON.stringify(query), () => new LibraryStore(this.client, query, onWork));
  }

  /** However many components care for a visit, it is said once. */
  visit(session: string): Shared {
    return found(this.#visits, session, () => new Shared(() => attend(this.client.session(session))));
  }

  /** A job has ended: credits may have come back, and the library may have more. */
  readonly #ended = (): void => {
    void this.balance.refresh();
    for (const listener of this.#onWork) listener();
  };
}

function found<T>(all: Map<string, T>, key: string, make: () => T): T {
  let one = all.get(key);
  if (!one) {
    one = make();
    all.set(key, one);
  }
  return one;
}
