import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/accounts")({ component: Accounts });

function Accounts() {
  return <Page title="Accounts">{null}</Page>;
}
