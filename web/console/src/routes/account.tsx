import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/accounts/$account")({ component: Account });

function Account() {
  return <Page title="Account">{null}</Page>;
}
