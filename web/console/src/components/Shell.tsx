import { useIsFetching } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { CHORD, useKeys } from "../hooks/useKeys";
import { useSignedIn } from "../hooks/useSignedIn";
import { PAGES, type PageLink } from "../pages";
import { Help } from "./Help";
import { Icon } from "./Icon";
import { Palette } from "./Palette";
import { Person } from "./Person";
import styles from "./Shell.module.css";
import { Toasts } from "./Toast";

/** The frame of every page: sidebar on a desktop, bar and drawer on a phone. The sign-in page stands alone. */
export function Shell() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  if (path === "/sign-in") return <Outlet />;
  return <Frame path={path} />;
}

function Frame({ path }: { path: string }) {
  const drawer = useRef<HTMLDialogElement>(null);
  const palette = useRef<HTMLDialogElement>(null);
  const help = useRef<HTMLDialogElement>(null);
  const main = useRef<HTMLElement>(null);
  const someone = useSignedIn();
  const navigate = useNavigate();

  function openPalette() {
    drawer.current?.close();
    if (!palette.current?.open) palette.current?.showModal();
  }

  useKeys({
    palette: openPalette,
    help: () => help.current?.showModal(),
    search: () => {
      const field = document.querySelector<HTMLInputElement>("[data-search]");
      if (field) field.focus();
      else void navigate({ to: "/jobs" }).then(() => focusSoon("[data-search]"));
    },
    letter: (key) => {
      const page = PAGES.find((one) => one.key === key);
      if (page) void navigate({ to: page.to });
      return page !== undefined;
    },
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the drawer.
  useEffect(() => {
    drawer.current?.close();
  }, [path]);

  return (
    <div className={styles.frame}>
      <a
        className={styles.skip}
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the page
      </a>
      {someone?.environment && <div className={styles.banner}>{someone.environment}</div>}
      <Working />
      <header className={styles.top}>
        <Brand />
        <button type="button" className="button plain icon" aria-label="Search" onClick={openPalette}>
          <Icon name="search" size={20} />
        </button>
        <button
          type="button"
          className="button plain icon"
          aria-label="All pages"
          onClick={() => drawer.current?.showModal()}
        >
          <Icon name="menu" size={20} />
        </button>
      </header>
      <aside className={styles.side} aria-label="Ficha">
        <Brand />
        <button type="button" className={styles.find} onClick={openPalette} aria-keyshortcuts="Control+K Meta+K">
          <Icon name="search" />
          <span>Go to…</span>
          <kbd>{CHORD}</kbd>
        </button>
        <Pages label="Pages" />
        <button type="button" className={styles.line} onClick={() => help.current?.showModal()}>
          <Icon name="help" />
          <span>Shortcuts</span>
        </button>
        {someone && <Person someone={someone} />}
      </aside>
      <main ref={main} id="main" className={styles.main} tabIndex={-1}>
        <Outlet />
      </main>
      <nav className={styles.bottom} aria-label="Main pages">
        {PAGES.filter((page) => BOTTOM.has(page.to)).map((page) => (
          <PageLine key={page.to} page={page} />
        ))}
      </nav>
      <dialog ref={drawer} className={styles.drawer} aria-label="All pages">
        <div className={styles.drawerHead}>
          <Brand />
          <button
            type="button"
            className="button plain icon"
            aria-label="Close"
            onClick={() => drawer.current?.close()}
          >
            <Icon name="close" size={20} />
          </button>
        </div>
        <Pages label="All pages" />
        {someone && <Person someone={someone} />}
      </dialog>
      <Palette dialog={palette} />
      <Help dialog={help} />
      <Toasts />
      <PageSaid path={path} />
    </div>
  );
}

const BOTTOM = new Set(["/", "/jobs", "/dead-letters", "/accounts"]);

function Brand() {
  return (
    <Link to="/" className={styles.brand} aria-label="Ficha, overview">
      <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
        <path
          fill="currentColor"
          d="M4 3h14a2 2 0 0 1 2 2v3.6a2.4 2.4 0 0 0 0 4.8V17a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2v-3.6a2.4 2.4 0 0 0 0-4.8V5a2 2 0 0 1 2-2Zm4.2 4v8h1.9v-2.9h3.2v-1.6h-3.2V8.6h3.9V7Z"
          fillRule="evenodd"
        />
      </svg>
      <span>Ficha</span>
    </Link>
  );
}

const GROUPS = [...new Set(PAGES.map((page) => page.group))];

function Pages({ label }: { label: string }) {
  return (
    <nav aria-label={label} className={styles.pages}>
      {GROUPS.map((group) => (
        <ul key={group} aria-label={group}>
          {PAGES.filter((page) => page.group === group).map((page) => (
            <li key={page.to}>
              <PageLine page={page} />
            </li>
          ))}
        </ul>
      ))}
    </nav>
  );
}

function PageLine({ page }: { page: PageLink }) {
  return (
    <Link
      to={page.to}
      className={styles.line}
      activeOptions={{ exact: page.to === "/", includeSearch: false }}
      activeProps={{ "aria-current": "page" }}
    >
      <Icon name={page.icon} />
      <span>{page.title}</span>
    </Link>
  );
}

/** A thin line at the top while a page loads; polls in the background do not show it. */
function Working() {
  const isLoading = useRouterState({ select: (state) => state.isLoading });
  const asks = useIsFetching({ predicate: (query) => query.state.data === undefined });
  return <div className={styles.working} data-on={isLoading || asks > 0 || undefined} />;
}

function focusSoon(selector: string): void {
  requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus());
}

/** Says the title of a page that was opened: without a new document, screen readers do not notice. Empty at load. */
function PageSaid({ path }: { path: string }) {
  const [said, setSaid] = useState("");
  const first = useRef(path);
  useEffect(() => {
    if (first.current === path) return;
    first.current = "";
    const timer = setTimeout(() => setSaid(document.title), 400);
    return () => clearTimeout(timer);
  }, [path]);
  return (
    <div role="status" className="spoken">
      {said}
    </div>
  );
}
