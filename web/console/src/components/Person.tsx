import { useRouter } from "@tanstack/react-router";
import { Fragment } from "react";
import { setTheme, type Theme, useTheme } from "../hooks/useTheme";
import { api, forgetAnswers } from "../services/api";
import { client, signInQuery } from "../services/queries";
import type { SignedIn } from "../services/shapes";
import { Icon, type IconName } from "./Icon";
import styles from "./Person.module.css";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const ICONS: Record<Theme, IconName> = { system: "system", light: "sun", dark: "moon" };

const MAY: Record<SignedIn["scope"], string> = {
  admin: "may act",
  viewer: "read only",
  service: "for accounts",
  user: "one account",
};

/** Who is signed in and with which scope, the theme, and the way out. */
export function Person({ someone }: { someone: SignedIn }) {
  const theme = useTheme();
  const router = useRouter();

  async function signOut() {
    try {
      await api.post("/api/sign-out");
    } finally {
      // Only what this person was shown is forgotten; the next question asks the server who is there.
      forgetAnswers();
      client.clear();
      client.setQueryData(signInQuery.queryKey, null);
      await router.navigate({ to: "/sign-in" });
    }
  }

  return (
    <div className={styles.person}>
      <div className={styles.who}>
        <div className={styles.name} title={someone.name}>
          {/* A key's parts are joined by underscores, where a line may end. */}
          {someone.name.split("_").map((part, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one name never move.
            <Fragment key={index}>
              {index > 0 && (
                <>
                  _<wbr />
                </>
              )}
              {part}
            </Fragment>
          ))}
        </div>
        <div className={styles.scope} title={`Scope ${someone.scope}: ${MAY[someone.scope]}`}>
          {someone.scope} · {MAY[someone.scope]}
        </div>
      </div>
      <div className={styles.acts}>
        <button
          type="button"
          className="button plain icon"
          aria-label={`Theme: ${theme}. Change to ${NEXT[theme]}`}
          title={`Theme: ${theme}`}
          onClick={() => setTheme(NEXT[theme])}
        >
          <Icon name={ICONS[theme]} />
        </button>
        <button type="button" className="button plain icon" aria-label="Sign out" title="Sign out" onClick={signOut}>
          <Icon name="out" />
        </button>
      </div>
    </div>
  );
}
