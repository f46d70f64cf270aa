import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/batches")({ component: Batches });

function Batches() {
  return <Page title="Batches">{null}</Page>;
}
