import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/tools")({ component: Tools });

function Tools() {
  return <Page title="Tools">{null}</Page>;
}
