import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/jobs/$job")({ component: Job });

function Job() {
  return <Page title="Job">{null}</Page>;
}
