import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/dead-letters")({ component: DeadLetters });

function DeadLetters() {
  return <Page title="Dead letters">{null}</Page>;
}
