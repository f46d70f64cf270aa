import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/providers")({ component: Providers });

function Providers() {
  return <Page title="Providers">{null}</Page>;
}
