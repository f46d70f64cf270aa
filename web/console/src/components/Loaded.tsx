import type { ReactNode } from "react";
import { ErrorPanel } from "./ErrorPanel";
import styles from "./Loaded.module.css";

export interface LoadedProps<Data> {
  /** What react-query's `useQuery` gives. */
  query: {
    data: Data | undefined;
    error: unknown;
    isFetching: boolean;
    isPlaceholderData?: boolean;
    refetch: () => unknown;
  };
  /** What is loaded: "workers". */
  what: string;
  children: (data: Data) => ReactNode;
}

/** What was loaded, greyed where a refresh of it failed. */
export function Aged({ isOld, children }: { isOld: boolean; children: ReactNode }) {
  return <div className={isOld ? styles.old : styles.fresh}>{children}</div>;
}

/** Data, or that it loads, or why not. When a refresh fails, the old data stays, greyed: one failed panel never empties a page. */
export function Loaded<Data>({ query, what, children }: LoadedProps<Data>) {
  const { data, error } = query;
  const isOld = data !== undefined && (error !== null || query.isPlaceholderData === true);
  return (
    <>
      {error !== null && (
        <ErrorPanel
          error={error}
          what={what}
          onRetry={() => void query.refetch()}
          isRetrying={query.isFetching}
          hasOld={data !== undefined}
        />
      )}
      {data !== undefined && <Aged isOld={isOld}>{children(data)}</Aged>}
      {data === undefined && error === null && (
        <div className={styles.loading} aria-busy="true">
          <span className="spoken">Loading {what}…</span>
          <i />
          <i />
          <i />
        </div>
      )}
    </>
  );
}
