// The pages that the sidebar, the palette and the keys lead to, in their order.
import type { IconName } from "./components/Icon";

export interface PageLink {
  to:
    | "/"
    | "/jobs"
    | "/dead-letters"
    | "/batches"
    | "/accounts"
    | "/pools"
    | "/workers"
    | "/providers"
    | "/tools"
    | "/webhooks"
    | "/keys"
    | "/audit"
    | "/bulk-acts";
  title: string;
  /** The letter that opens it. */
  key: string;
  icon: IconName;
  group: "Queue" | "Money" | "Machines" | "Set-up";
}

export const PAGES: PageLink[] = [
  { to: "/", title: "Overview", key: "o", icon: "overview", group: "Queue" },
  { to: "/jobs", title: "Jobs", key: "j", icon: "jobs", group: "Queue" },
  { to: "/dead-letters", title: "Dead letters", key: "d", icon: "dead", group: "Queue" },
  { to: "/batches", title: "Batches", key: "b", icon: "batches", group: "Queue" },
  { to: "/bulk-acts", title: "Bulk acts", key: "u", icon: "bulk", group: "Queue" },
  { to: "/accounts", title: "Accounts", key: "a", icon: "accounts", group: "Money" },
  { to: "/pools", title: "Pools", key: "p", icon: "pools", group: "Machines" },
  { to: "/workers", title: "Workers", key: "w", icon: "workers", group: "Machines" },
  { to: "/providers", title: "Providers", key: "v", icon: "providers", group: "Machines" },
  { to: "/tools", title: "Tools", key: "t", icon: "tools", group: "Set-up" },
  { to: "/webhooks", title: "Webhooks", key: "h", icon: "webhooks", group: "Set-up" },
  { to: "/keys", title: "Keys", key: "k", icon: "keys", group: "Set-up" },
  { to: "/audit", title: "Audit", key: "l", icon: "audit", group: "Set-up" },
];
