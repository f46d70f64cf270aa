import type { ErrorComponentProps } from "@tanstack/react-router";
import { Problem, wordsOf } from "../services/api";
import { ErrorPanel } from "./ErrorPanel";
import { Page } from "./Page";

/** A page that cannot be opened: the server does not answer, or it has a newer console than this window. */
export function Broken({ error }: ErrorComponentProps) {
  const isOld = /dynamically imported module|module script|Importing a module/i.test(wordsOf(error));
  return (
    <Page title={isOld ? "There is a newer console" : "This page cannot be opened"}>
      {isOld && <p>The server was updated since this window was opened. Load the page again to go on.</p>}
      <ErrorPanel
        error={error instanceof Problem || !isOld ? error : new Error("A part of the page is no longer there.")}
        what="the page"
        onRetry={() => window.location.reload()}
      />
    </Page>
  );
}
