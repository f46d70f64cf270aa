import type { Ficha } from "@ficha/client";
import { createContext, type ReactNode, useContext, useMemo } from "react";
import { Stores } from "./stores/stores";
import { type Locale, localeOf, WORDS, type Words } from "./words";

interface Provided {
  stores: Stores;
  words: Words;
  locale: Locale;
}

const Context = createContext<Provided | null>(null);

/** One set of stores for a client, however often providers are made anew. */
const made = new WeakMap<Ficha, Stores>();

export interface FichaProviderProps {
  client: Ficha;
  /** The page's language if there is none. */
  locale?: Locale | undefined;
  /** Words of the product's own, in place of some. */
  words?: Partial<Words> | undefined;
  children?: ReactNode;
}

export function FichaProvider({ client, locale, words, children }: FichaProviderProps) {
  const provided = useMemo(() => {
    let stores = made.get(client);
    if (!stores) {
      stores = new Stores(client);
      made.set(client, stores);
    }
    const chosen = locale ?? localeOf(typeof document === "undefined" ? undefined : document.documentElement.lang);
    return { stores, locale: chosen, words: { ...WORDS[chosen], ...words } };
  }, [client, locale, words]);
  return <Context.Provider value={provided}>{children}</Context.Provider>;
}

export function useProvided(): Provided {
  const provided = useContext(Context);
  if (!provided) throw new Error("Ficha's hooks and parts need a <FichaProvider client={…}> around them");
  return provided;
}

/** The client of the provider. */
export function useFicha(): Ficha {
  return useProvided().stores.client;
}

/** The words of the provider's language. */
export function useWords(): Words {
  return useProvided().words;
}
