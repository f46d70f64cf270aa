import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/pools")({ component: Pools });

function Pools() {
  return <Page title="Pools">{null}</Page>;
}
