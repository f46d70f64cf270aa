import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type RefObject, useEffect, useId, useRef, useState } from "react";
import { setTheme } from "../hooks/useTheme";
import { api } from "../services/api";
import { type Offer, offersFor } from "../services/palette";
import { searchWordsQuery } from "../services/queries";
import { Icon } from "./Icon";
import styles from "./Palette.module.css";

/** ⌘K: pages, a job by its id, an account by the beginning of its name. The caller opens the dialog. */
export function Palette({ dialog }: { dialog: RefObject<HTMLDialogElement | null> }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const element = dialog.current;
    if (!element) return;
    // A dialog tells when it opens only by its attribute.
    const observer = new MutationObserver(() => setOpen(element.open));
    observer.observe(element, { attributes: true, attributeFilter: ["open"] });
    return () => observer.disconnect();
  }, [dialog]);
  return (
    <dialog
      ref={dialog}
      className={styles.dialog}
      aria-label="Go to"
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      {isOpen && <Body close={() => dialog.current?.close()} />}
    </dialog>
  );
}

function Body({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  const navigate = useNavigate();
  const words = useQuery(searchWordsQuery).data;
  const asked = useSettled(text.trim(), 150);
  const accounts = useQuery({
    queryKey: ["accounts", "palette", asked],
    enabled: asked !== "",
    staleTime: 10_000,
    queryFn: ({ signal }) => api.get("/api/admin/accounts", { query: { search: asked, limit: 6 }, signal }),
  }).data;
  const offers = offersFor(text, {
    accounts: asked === "" ? [] : (accounts?.items.map((account) => account.id) ?? []),
    tools: words?.tools ?? [],
  });
  const active = Math.min(at, offers.length - 1);

  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: "nearest" });
  }, [active]);

  function take(offer: Offer | undefined) {
    if (!offer) return;
    close();
    if (offer.kind === "page") void navigate({ to: offer.to });
    else if (offer.kind === "job") void navigate({ to: "/jobs/$job", params: { job: offer.job } });
    else if (offer.kind === "account") void navigate({ to: "/accounts/$account", params: { account: offer.account } });
    else if (offer.kind === "search") void navigate({ to: "/jobs", search: { search: offer.search } });
    else setTheme(offer.theme);
  }

  function press(event: KeyboardEvent) {
    if (event.nativeEvent.isComposing) return;
    const step: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      Home: 0,
      End: offers.length - 1,
    };
    const to = step[event.key];
    if (to !== undefined && (event.key.startsWith("Arrow") || text === "")) {
      setAt((to + offers.length) % Math.max(1, offers.length));
      event.preventDefault();
    } else if (event.key === "Enter") {
      take(offers[active]);
      event.preventDefault();
    }
  }

  return (
    <>
      <div className={styles.head}>
        <Icon name="search" />
        <input
          ref={field}
          className={styles.field}
          role="combobox"
          aria-label="Page, job id, account or search"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={offers.length > 0 ? `${id}-${active}` : undefined}
          aria-autocomplete="list"
          placeholder="Page, job id, account or search"
          spellCheck={false}
          autoComplete="off"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={press}
        />
        <kbd>esc</kbd>
      </div>
      <ul ref={list} id={`${id}-list`} role="listbox" aria-label="Offers" className={styles.list}>
        {offers.map((offer, index) => (
          <li
            key={offer.key}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === active}
            className={styles.offer}
            onMouseMove={() => setAt(index)}
            onClick={() => take(offer)}
          >
            <Icon name={offer.icon} />
            <span className={styles.title}>{offer.title}</span>
            <span className={styles.kind}>{offer.note}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The value once it has stayed the same for a while: not every letter becomes a question. */
function useSettled(value: string, ms: number): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
