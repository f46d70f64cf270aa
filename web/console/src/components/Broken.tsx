import { useQuery } from "@tanstack/react-query";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { Problem, wordsOf } from "../services/api";
import { ErrorPanel } from "./ErrorPanel";
import { Page } from "./Page";

/** What browsers and the bundler say of a part of the page, a script or a style sheet, that did not come. */
const PART = /dynamically imported module|module script|Importing a module|preload CSS/i;

/** A page that cannot be opened: the server does not answer, or it has a newer console than this window. */
export function Broken({ error }: ErrorComponentProps) {
  const isPart = !(error instanceof Problem) && PART.test(wordsOf(error));
  // A part is missing in both cases: whether the server answers tells them apart.
  const answers = useQuery({
    queryKey: ["answers"],
    enabled: isPart,
    retry: false,
    gcTime: 0,
    queryFn: async ({ signal }) => (await fetch("/healthz", { cache: "no-store", signal })).ok,
  });
  const isOld = isPart && answers.data === true;
  const words = isOld ? "A part of the page is no longer there." : "The server does not answer.";
  return (
    <Page title={isOld ? "There is a newer console" : "This page cannot be opened"}>
      {isOld && <p>The server was updated since this window was opened. Load the page again to go on.</p>}
      <ErrorPanel error={isPart ? new Error(words) : error} what="the page" onRetry={() => window.location.reload()} />
    </Page>
  );
}
