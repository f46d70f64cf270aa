import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/jobs")({ component: Jobs });

function Jobs() {
  return <Page title="Jobs">{null}</Page>;
}
