// The questions of the pages that list what the product is made of. Their keys begin with the noun, as in queries.ts.
import { queryOptions } from "@tanstack/react-query";
import { api } from "./api";

type Paged = { cursor?: string; limit?: number };

export const deadGroupsQuery = queryOptions({
  queryKey: ["dead", "groups"],
  queryFn: ({ signal }) => api.get("/api/admin/dead/groups", { signal }),
});

export const foundJobsQuery = (query: Paged & { search: string }) =>
  queryOptions({
    queryKey: ["jobs", "found", query],
    queryFn: ({ signal }) => api.get("/api/admin/jobs", { query, signal }),
  });

export const jobCountQuery = (search: string) =>
  queryOptions({
    queryKey: ["jobs", "count", search],
    queryFn: ({ signal }) => api.get("/api/admin/jobs/count", { query: { search }, signal }),
  });

export const bulkActsQuery = (query: Paged) =>
  queryOptions({
    queryKey: ["bulk-acts", query],
    queryFn: ({ signal }) => api.get("/api/admin/bulk-acts", { query, signal }),
  });

export const bulkActQuery = (id: string) =>
  queryOptions({
    queryKey: ["bulk-acts", "one", id],
    queryFn: ({ signal }) => api.get("/api/admin/bulk-acts/{bulk_id}", { path: { bulk_id: id }, signal }),
  });

export const batchesQuery = (query: Paged & { account?: string }) =>
  queryOptions({
    queryKey: ["batches", query],
    queryFn: ({ signal }) => api.get("/api/batches", { query, signal }),
  });

export const batchQuery = (batch: string) =>
  queryOptions({
    queryKey: ["batches", "one", batch],
    queryFn: ({ signal }) => api.get("/api/batches/{batch_id}", { path: { batch_id: batch }, signal }),
  });

export const batchJobsQuery = (query: Paged & { batch: string }) =>
  queryOptions({
    queryKey: ["jobs", "of-batch", query],
    queryFn: ({ signal }) => api.get("/api/jobs", { query, signal }),
  });

export const accountsQuery = (query: Paged & { search?: string }) =>
  queryOptions({
    queryKey: ["accounts", query],
    queryFn: ({ signal }) => api.get("/api/admin/accounts", { query, signal }),
  });

export const accountQuery = (account: string) =>
  queryOptions({
    queryKey: ["accounts", "one", account],
    queryFn: ({ signal }) => api.get("/api/admin/accounts/{account}", { path: { account }, signal }),
  });

export const ledgerQuery = (account: string, query: Paged) =>
  queryOptions({
    queryKey: ["accounts", "ledger", account, query],
    queryFn: ({ signal }) => api.get("/api/admin/accounts/{account}/ledger", { path: { account }, query, signal }),
  });

export const filesQuery = (query: Paged & { account: string }) =>
  queryOptions({
    queryKey: ["accounts", "files", query],
    queryFn: ({ signal }) => api.get("/api/files", { query, signal }),
  });

export const plansQuery = queryOptions({
  queryKey: ["plans"],
  staleTime: 60_000,
  queryFn: ({ signal }) => api.get("/api/admin/plans", { signal }),
});

export const poolsQuery = queryOptions({
  queryKey: ["pools"],
  queryFn: ({ signal }) => api.get("/api/admin/pools", { signal }),
});

export const brakesQuery = queryOptions({
  queryKey: ["brakes"],
  queryFn: ({ signal }) => api.get("/api/admin/brakes", { signal }),
});

export const workersQuery = (query: Paged) =>
  queryOptions({
    queryKey: ["workers", query],
    queryFn: ({ signal }) => api.get("/api/admin/workers", { query, signal }),
  });

export const providersQuery = queryOptions({
  queryKey: ["providers"],
  queryFn: ({ signal }) => api.get("/api/admin/providers", { signal }),
});

export const marginsQuery = queryOptions({
  queryKey: ["margins"],
  staleTime: 60_000,
  queryFn: ({ signal }) => api.get("/api/admin/margins", { signal }),
});

export const toolsQuery = queryOptions({
  queryKey: ["tools"],
  staleTime: 60_000,
  queryFn: ({ signal }) => api.get("/api/tools", { signal }),
});

export const webhooksQuery = (account: string | undefined) =>
  queryOptions({
    queryKey: ["webhooks", account],
    queryFn: ({ signal }) => api.get("/api/webhook-endpoints", { query: { account }, signal }),
  });

export type DeliveryState = "delivered" | "failed" | "pending";

export const deliveriesQuery = (query: Paged & { account?: string; webhook?: string; state?: DeliveryState }) =>
  queryOptions({
    queryKey: ["webhooks", "deliveries", query],
    queryFn: ({ signal }) => api.get("/api/webhook-deliveries", { query, signal }),
  });

export const apiKeysQuery = (query: Paged) =>
  queryOptions({
    queryKey: ["api-keys", query],
    queryFn: ({ signal }) => api.get("/api/admin/api-keys", { query, signal }),
  });

export const auditQuery = (query: Paged & { actor?: string; target?: string }) =>
  queryOptions({
    queryKey: ["audit", query],
    queryFn: ({ signal }) => api.get("/api/admin/audit", { query, signal }),
  });
