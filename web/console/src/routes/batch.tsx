import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/batches/$batch")({ component: Batch });

function Batch() {
  return <Page title="Batch">{null}</Page>;
}
