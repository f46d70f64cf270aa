import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/tools/$tool")({ component: Tool });

function Tool() {
  return <Page title="Tool">{null}</Page>;
}
