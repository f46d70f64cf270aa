import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/keys")({ component: Keys });

function Keys() {
  return <Page title="Keys">{null}</Page>;
}
