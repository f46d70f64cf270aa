import { createLazyRoute, useRouter } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { api, forgetAnswers, Problem, wordsOf } from "../services/api";
import { client, signInQuery } from "../services/queries";
import styles from "./sign-in.module.css";

export const Route = createLazyRoute("/sign-in")({ component: SignIn });

/** Takes a key or token once and hands it to the server, which answers with a cookie that no script can read. */
function SignIn() {
  const { back } = Route.useSearch();
  const router = useRouter();
  const field = useRef<HTMLInputElement>(null);
  const [words, setWords] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);

  useEffect(() => {
    document.title = "Sign in · Ficha";
    field.current?.focus();
  }, []);

  // The overview is where everybody comes first: only another page is one that somebody was at.
  const isElsewhere = (path: string | undefined) => path !== undefined && !/^\/(\?|$)/.test(path);

  async function signIn(event: FormEvent) {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (isBusy) return;
    if (token === "") {
      setWords("Paste an API key or a token first.");
      field.current?.focus();
      return;
    }
    setBusy(true);
    setWords(null);
    try {
      const someone = await api.post("/api/sign-in", { token });
      if (someone.scope !== "admin" && someone.scope !== "viewer") {
        await api.post("/api/sign-out");
        setWords(`This key has the scope "${someone.scope}". The console needs "admin", or "viewer" to look only.`);
        return;
      }
      forgetAnswers();
      client.clear();
      client.setQueryData(signInQuery.queryKey, someone);
      if (back) router.history.replace(router.basepath + back);
      else await router.navigate({ to: "/", replace: true });
    } catch (error) {
      setWords(error instanceof Problem && error.status === 401 ? `Not accepted: ${error.detail}` : wordsOf(error));
      field.current?.select();
    } finally {
      setBusy(false);
    }
  }

  return (
    <main className={styles.page}>
      <form className={styles.card} onSubmit={signIn}>
        <svg width="40" height="40" viewBox="0 0 22 22" aria-hidden="true" className={styles.mark}>
          <path
            fill="currentColor"
            d="M4 3h14a2 2 0 0 1 2 2v3.6a2.4 2.4 0 0 0 0 4.8V17a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2v-3.6a2.4 2.4 0 0 0 0-4.8V5a2 2 0 0 1 2-2Zm4.2 4v8h1.9v-2.9h3.2v-1.6h-3.2V8.6h3.9V7Z"
            fillRule="evenodd"
          />
        </svg>
        <h1>Sign in to Ficha</h1>
        {isElsewhere(back) && <p className="muted">Sign in to go on where you were.</p>}
        <div>
          <label className="label" htmlFor="token">
            API key or token
          </label>
          <input
            ref={field}
            id="token"
            className="field"
            type="password"
            autoComplete="current-password"
            spellCheck={false}
            aria-describedby="token-help token-problem"
            aria-invalid={words !== null}
          />
          <p id="token-help" className={styles.help}>
            The page does not keep it. To make one, run <code>ficha apikey create me --scope admin</code>
          </p>
        </div>
        <p id="token-problem" role="alert" className={styles.problem}>
          {words}
        </p>
        <button type="submit" className="button solid" aria-disabled={isBusy}>
          {isBusy ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
