import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/")({ component: Overview });

function Overview() {
  return <Page title="Overview">{null}</Page>;
}
