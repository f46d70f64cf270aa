/** A value outside React that components mirror. */
export class Store<T> {
  #value: T;
  readonly #listeners = new Set<() => void>();

  constructor(first: T) {
    this.#value = first;
  }

  // Bound: `useSyncExternalStore` calls them by themselves.
  readonly get = (): T => this.#value;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) this.begin();
    return () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) this.end();
    };
  };

  protected set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener();
  }

  protected change(fields: Partial<T>): void {
    this.set({ ...this.#value, ...fields });
  }

  /** Somebody looks. */
  protected begin(): void {}

  /** Nobody looks any more. */
  protected end(): void {}
}

/**
 * Begins with the first who needs it and ends a moment after the last: a component that is taken away and put back at
 * once, as React's StrictMode does, costs nothing.
 */
export class Shared {
  #users = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stop: (() => void) | undefined;

  constructor(
    readonly start: () => () => void,
    readonly lingerMs = 100,
  ) {}

  use(): () => void {
    this.#users += 1;
    clearTimeout(this.#timer);
    this.#stop ??= this.start();
    let isUsed = true;
    return () => {
      if (!isUsed) return;
      isUsed = false;
      this.#users -= 1;
      if (this.#users > 0) return;
      this.#timer = setTimeout(() => {
        this.#stop?.();
        this.#stop = undefined;
      }, this.lingerMs);
    };
  }
}
