// Every address of the console. A page is loaded when it is opened: only its query schema is here from the start.
import { createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { Broken } from "./components/Broken";
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
  errorComponent: Broken,
  beforeLoad: async ({ location }) => {
    if (location.pathname === "/sign-in") return;
    const someone = await client.ensureQueryData(signInQuery);
    if (!someone) throw redirect({ to: "/sign-in", search: { back: location.href } });
  },
});

const under = <Path extends string>(path: Path) => ({ getParentRoute: () => root, path }) as const;

const signIn = createRoute({ ...under("/sign-in"), validateSearch: readSignInSearch });
const overview = createRoute({ ...under("/"), validateSearch: readOverviewSearch });
const jobs = createRoute({ ...under("/jobs"), validateSearch: readJobsSearch });
const job = createRoute(under("/jobs/$job"));
const deadLetters = createRoute({ ...under("/dead-letters"), validateSearch: readDeadLettersSearch });
const batches = createRoute({ ...under("/batches"), validateSearch: readBatchesSearch });
const batch = createRoute({ ...under("/batches/$batch"), validateSearch: readBatchSearch });
const accounts = createRoute({ ...under("/accounts"), validateSearch: readAccountsSearch });
const account = createRoute({ ...under("/accounts/$account"), validateSearch: readAccountSearch });
const pools = createRoute(under("/pools"));
const workers = createRoute({ ...under("/workers"), validateSearch: readWorkersSearch });
const providers = createRoute(under("/providers"));
const tools = createRoute(under("/tools"));
const tool = createRoute(under("/tools/$tool"));
const webhooks = createRoute({ ...under("/webhooks"), validateSearch: readWebhooksSearch });
const keys = createRoute({ ...under("/keys"), validateSearch: readKeysSearch });
const audit = createRoute({ ...under("/audit"), validateSearch: readAuditSearch });
const bulkActs = createRoute({ ...under("/bulk-acts"), validateSearch: readBulkActsSearch });

const pages = root.addChildren([
  signIn,
  overview,
  jobs,
  job,
  deadLetters,
  batches,
  batch,
  accounts,
  account,
  pools,
  workers,
  providers,
  tools,
  tool,
  webhooks,
  keys,
  audit,
  bulkActs,
]);

export const router = createRouter({
  routeTree: pages,
  basepath: "/console",
  scrollRestoration: true,
  defaultPreload: "intent",
  defaultErrorComponent: Broken,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

// Apart from the routes above: a page knows the type of its query by the router, whose type must not depend on the page.
signIn.lazy(() => import("./routes/sign-in").then((page) => page.Route));
overview.lazy(() => import("./routes/overview").then((page) => page.Route));
jobs.lazy(() => import("./routes/jobs").then((page) => page.Route));
job.lazy(() => import("./routes/job").then((page) => page.Route));
deadLetters.lazy(() => import("./routes/dead-letters").then((page) => page.Route));
batches.lazy(() => import("./routes/batches").then((page) => page.Route));
batch.lazy(() => import("./routes/batch").then((page) => page.Route));
accounts.lazy(() => import("./routes/accounts").then((page) => page.Route));
account.lazy(() => import("./routes/account").then((page) => page.Route));
pools.lazy(() => import("./routes/pools").then((page) => page.Route));
workers.lazy(() => import("./routes/workers").then((page) => page.Route));
providers.lazy(() => import("./routes/providers").then((page) => page.Route));
tools.lazy(() => import("./routes/tools").then((page) => page.Route));
tool.lazy(() => import("./routes/tool").then((page) => page.Route));
webhooks.lazy(() => import("./routes/webhooks").then((page) => page.Route));
keys.lazy(() => import("./routes/keys").then((page) => page.Route));
audit.lazy(() => import("./routes/audit").then((page) => page.Route));
bulkActs.lazy(() => import("./routes/bulk-acts").then((page) => page.Route));
