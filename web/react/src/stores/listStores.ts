import type { Ficha, FichaError, LibraryItem, LibraryQuery, Tool } from "@ficha/client";
import { Shared, Store } from "./store";

export interface ToolsSnapshot {
  tools: Tool[];
  isLoading: boolean;
  error: FichaError | null;
}

/** The tools that the account may use. */
export class ToolsStore extends Store<ToolsSnapshot> {
  readonly #client: Ficha;
  readonly #looking: Shared;
  #leave: (() => void) | undefined;

  constructor(client: Ficha) {
    super({ tools: [], isLoading: true, error: null });
    this.#client = client;
    this.#looking = new Shared(() => {
      void this.refresh();
      return () => {};
    });
  }

  readonly refresh = async (): Promise<void> => {
    try {
      this.set({ tools: await this.#client.tools(), isLoading: false, error: null });
    } catch (error) {
      this.change({ isLoading: false, error: error as FichaError });
    }
  };

  protected override begin(): void {
    this.#leave = this.#looking.use();
  }

  protected override end(): void {
    this.#leave?.();
  }
}

export interface LibrarySnapshot {
  items: LibraryItem[];
  isLoading: boolean;
  hasMore: boolean;
  error: FichaError | null;
}

/** The account's completed work, page by page, newest first. */
export class LibraryStore extends Store<LibrarySnapshot> {
  readonly #client: Ficha;
  readonly #query: LibraryQuery;
  readonly #looking: Shared;
  #next: string | null = null;
  #asked = 0;
  #leave: (() => void) | undefined;

  constructor(client: Ficha, query: LibraryQuery, onWork: (listener: () => void) => () => void) {
    super({ items: [], isLoading: true, hasMore: false, error: null });
    this.#client = client;
    this.#query = query;
    this.#looking = new Shared(() => {
      void this.refresh();
      return onWork(() => void this.refresh());
    });
  }

  readonly refresh = (): Promise<void> => this.#load(undefined);

  readonly more = async (): Promise<void> => {
    if (this.#next !== null && !this.get().isLoading) await this.#load(this.#next);
  };

  /** Takes work out at once; puts it back if the server refuses. */
  readonly remove = async (jobId: string): Promise<void> => {
    const before = this.get().items;
    this.change({ items: before.filter((item) => item.job.id !== jobId) });
    try {
      await this.#client.removeWork(jobId);
    } catch (error) {
      this.change({ items: before, error: error as FichaError });
    }
  };

  async #load(cursor: string | undefined): Promise<void> {
    this.#asked += 1;
    const own = this.#asked;
    this.change({ isLoading: true, error: null });
    try {
      const page = await this.#client.library({ ...this.#query, cursor });
      if (own !== this.#asked) return;
      this.#next = page.next;
      const items = cursor === undefined ? page.items : [...this.get().items, ...page.items];
      this.set({ items, isLoading: false, hasMore: page.next !== null, error: null });
    } catch (error) {
      if (own === this.#asked) this.change({ isLoading: false, error: error as FichaError });
    }
  }

  protected override begin(): void {
    this.#leave = this.#looking.use();
  }

  protected override end(): void {
    this.#leave?.();
  }
}
