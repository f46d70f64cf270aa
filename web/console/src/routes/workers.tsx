import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/workers")({ component: Workers });

function Workers() {
  return <Page title="Workers">{null}</Page>;
}
