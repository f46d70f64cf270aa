import { createLazyRoute } from "@tanstack/react-router";
import { Page } from "../components/Page";

export const Route = createLazyRoute("/bulk-acts")({ component: BulkActs });

function BulkActs() {
  return <Page title="Bulk acts">{null}</Page>;
}
