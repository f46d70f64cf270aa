// Every address of the console. A page is loaded when it is opened: only its query schema is here from the start.
import { createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { Missing } from "./components/Missing";
import { Shell } from "./components/Shell";
import { readAccountSearch } from "./routes/account.search";
import { readAccountsSearch } from "./routes/accounts.search";
import { readAuditSearch } from "./routes/audit.search";
import { readBatchSearch } from "./routes/batch.search";
import { readBatchesSearch } from "./routes/batches.search";
import { readBulkActsSearch } from "./routes/bulk-acts.search";
import { readDeadLettersSearch } from "./routes/dead-letters.search";
import { readJobsSearch } from "./routes/jobs.search";
import { readKeysSearch } from "./routes/keys.search";
import { readOverviewSearch } from "./routes/overview.search";
import { readSignInSearch } from "./routes/sign-in.search";
import { readWebhooksSearch } from "./routes/webhooks.search";
import { readWorkersSearch } from "./routes/workers.search";
import { client, signInQuery } from "./services/queries";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: Missing,
  beforeLoad: async ({ location }) => {
    if (location.pathname === "/sign-in") return;
    const someone = await client.ensureQueryData(signInQuery).catch(() => null);
    if (!someone) throw redirect({ to: "/sign-in", search: { back: location.href } });
  },
});

const under = <Path extends string>(path: Path) => ({ getParentRoute: () => root, path }) as const;

const routes = [
  createRoute({ ...under("/sign-in"), validateSearch: readSignInSearch }).lazy(() =>
    import("./routes/sign-in").then((page) => page.Route),
  ),
  createRoute({ ...under("/"), validateSearch: readOverviewSearch }).lazy(() =>
    import("./routes/overview").then((page) => page.Route),
  ),
  createRoute({ ...under("/jobs"), validateSearch: readJobsSearch }).lazy(() =>
    import("./routes/jobs").then((page) => page.Route),
  ),
  createRoute(under("/jobs/$job")).lazy(() => import("./routes/job").then((page) => page.Route)),
  createRoute({ ...under("/dead-letters"), validateSearch: readDeadLettersSearch }).lazy(() =>
    import("./routes/dead-letters").then((page) => page.Route),
  ),
  createRoute({ ...under("/batches"), validateSearch: readBatchesSearch }).lazy(() =>
    import("./routes/batches").then((page) => page.Route),
  ),
  createRoute({ ...under("/batches/$batch"), validateSearch: readBatchSearch }).lazy(() =>
    import("./routes/batch").then((page) => page.Route),
  ),
  createRoute({ ...under("/accounts"), validateSearch: readAccountsSearch }).lazy(() =>
    import("./routes/accounts").then((page) => page.Route),
  ),
  createRoute({ ...under("/accounts/$account"), validateSearch: readAccountSearch }).lazy(() =>
    import("./routes/account").then((page) => page.Route),
  ),
  createRoute(under("/pools")).lazy(() => import("./routes/pools").then((page) => page.Route)),
  createRoute({ ...under("/workers"), validateSearch: readWorkersSearch }).lazy(() =>
    import("./routes/workers").then((page) => page.Route),
  ),
  createRoute(under("/providers")).lazy(() => import("./routes/providers").then((page) => page.Route)),
  createRoute(under("/tools")).lazy(() => import("./routes/tools").then((page) => page.Route)),
  createRoute(under("/tools/$tool")).lazy(() => import("./routes/tool").then((page) => page.Route)),
  createRoute({ ...under("/webhooks"), validateSearch: readWebhooksSearch }).lazy(() =>
    import("./routes/webhooks").then((page) => page.Route),
  ),
  createRoute({ ...under("/keys"), validateSearch: readKeysSearch }).lazy(() =>
    import("./routes/keys").then((page) => page.Route),
  ),
  createRoute({ ...under("/audit"), validateSearch: readAuditSearch }).lazy(() =>
    import("./routes/audit").then((page) => page.Route),
  ),
  createRoute({ ...under("/bulk-acts"), validateSearch: readBulkActsSearch }).lazy(() =>
    import("./routes/bulk-acts").then((page) => page.Route),
  ),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: "/console",
  scrollRestoration: true,
  defaultPreload: "intent",
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
