import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/audit")({ component: Audit });

function Audit() {
  return <Page title="Audit">{null}</Page>;
}
