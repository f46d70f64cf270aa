// The questions that pages ask, with their keys. A key begins with the noun that it reads, so that an act can make all
// of a noun's questions ask again: `queries.invalidate("jobs")`.
import { QueryClient, queryOptions } from "@tanstack/react-query";
import { api, Problem } from "./api";
import type { Range, SignedIn } from "./shapes";

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // Answers are never copied: exact-json.ts remembers numbers by the object that holds them.
      structuralSharing: false,
      refetchOnWindowFocus: true,
      retry: (failures, error) => failures < 2 && error instanceof Problem && error.retryable,
      retryDelay: (failures, error) =>
        error instanceof Problem && error.retryAfterS !== null ? error.retryAfterS * 1000 : 500 * 2 ** failures,
    },
  },
});

/** Who is signed in, or null. */
export const signInQuery = queryOptions({
  queryKey: ["sign-in"],
  staleTime: 60_000,
  queryFn: async ({ signal }): Promise<SignedIn | null> => {
    try {
      return await api.get("/api/sign-in", { signal });
    } catch (error) {
      if (error instanceof Problem && error.status === 401) return null;
      throw error;
    }
  },
});

export const overviewQuery = (range: Range) =>
  queryOptions({
    queryKey: ["overview", range],
    queryFn: ({ signal }) => api.get("/api/admin/overview", { query: { range }, signal }),
  });

export const searchWordsQuery = queryOptions({
  queryKey: ["search-words"],
  staleTime: 60_000,
  queryFn: ({ signal }) => api.get("/api/admin/search-words", { signal }),
});

export const jobPageQuery = (job: string) =>
  queryOptions({
    queryKey: ["jobs", "page", job],
    queryFn: ({ signal }) => api.get("/api/admin/jobs/{job_id}", { path: { job_id: job }, signal }),
  });

/** After an act: every question about these nouns is asked again. */
export function invalidate(...nouns: string[]): Promise<unknown> {
  return Promise.all(nouns.map((noun) => client.invalidateQueries({ queryKey: [noun] })));
}

export const JOBS_ON_A_PAGE = 100;

/** A page of a search, for polling; the list itself is an infinite query under ["jobs", "list", search]. */
export const jobsPageQuery = (search: string, cursor: string | undefined) =>
  queryOptions({
    queryKey: ["jobs", "poll", search, cursor],
    queryFn: ({ signal }) => api.get("/api/admin/jobs", { query: { search, cursor, limit: JOBS_ON_A_PAGE }, signal }),
  });
