import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/webhooks")({ component: Webhooks });

function Webhooks() {
  return <Page title="Webhooks">{null}</Page>;
}
