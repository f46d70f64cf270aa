import type { Account, Ficha, FichaError } from "@ficha/client";
import { Shared, Store } from "./store";

export interface BalanceSnapshot {
  /** With what is expected; null until it is known. */
  balance: number | null;
  plan: string | null;
  account: Account | null;
  /** Whether something of it is only expected. */
  isExpected: boolean;
  /** Whether it was told by the server after all that this page knows of. */
  isFresh: boolean;
  error: FichaError | null;
}

interface Expected {
  delta: number;
}

/** The account's credits: what the server said last, with what is expected to happen to it. */
export class BalanceStore extends Store<BalanceSnapshot> {
  readonly #client: Ficha;
  readonly #looking: Shared;
  #expected: Expected[] = [];
  #asked = 0;
  #leave: (() => void) | undefined;

  constructor(client: Ficha) {
    super({ balance: null, plan: null, account: null, isExpected: false, isFresh: false, error: null });
    this.#client = client;
    this.#looking = new Shared(() => {
      void this.refresh();
      return () => {};
    });
  }

  /** Shows a change before the server has said so. It ends with the truth, or by what is returned. */
  readonly expect = (delta: number): (() => void) => {
    const one = { delta };
    this.#expected.push(one);
    this.#show(this.get().account);
    return () => {
      this.#expected = this.#expected.filter((other) => other !== one);
      this.#show(this.get().account);
    };
  };

  /** Asks the server. What was expected before the question is settled by the answer. */
  readonly refresh = async (): Promise<void> => {
    this.#asked += 1;
    const own = this.#asked;
    const before = [...this.#expected];
    this.change({ isFresh: false });
    try {
      const account = await this.#client.balance();
      // Answers may overtake each other: the last question counts.
      if (own !== this.#asked) return;
      this.#expected = this.#expected.filter((one) => !before.includes(one));
      this.#show(account, true);
    } catch (error) {
      if (own === this.#asked) this.change({ error: error as FichaError });
    }
  };

  /** A receipt says what is left. */
  settle(balance: number): void {
    const { account } = this.get();
    // A question that is out may have been answered before.
    this.#asked += 1;
    if (account) this.#show({ ...account, balance }, true);
    else void this.refresh();
  }

  #show(account: Account | null, isFresh = this.get().isFresh): void {
    const delta = this.#expected.reduce((sum, one) => sum + one.delta, 0);
    this.set({
      account,
      balance: account ? account.balance + delta : null,
      plan: account?.plan ?? null,
      isExpected: this.#expected.length > 0,
      isFresh,
      error: null,
    });
  }

  protected override begin(): void {
    this.#leave = this.#looking.use();
  }

  protected override end(): void {
    this.#leave?.();
  }
}
