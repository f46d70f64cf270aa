import { useQuery } from "@tanstack/react-query";
import { formatCapped, formatCount, plural } from "../services/format";
import { IDS_MAX } from "../services/job-rows";
import { jobCountQuery } from "../services/lists";
import type { BulkVerb } from "../services/shapes";
import { BulkActButton } from "./BulkActButton";
import styles from "./BulkBar.module.css";
import { Button } from "./Button";

interface BulkBarProps {
  /** The ids of the chosen jobs. */
  chosen: readonly string[];
  /** How many rows are loaded, and whether the list goes on. */
  loaded: number;
  hasMore: boolean;
  search: string;
  /** Not the chosen rows, but all that the search finds. */
  isAll: boolean;
  onAll: (isAll: boolean) => void;
  onClear: () => void;
}

const ACTS: BulkVerb[] = ["requeue", "cancel", "refund", "discard"];

/** What to do with the chosen jobs. The server does it, job by job; this only says which. */
export function BulkBar({ chosen, loaded, hasMore, search, isAll, onAll, onClear }: BulkBarProps) {
  const isWholePage = chosen.length === loaded;
  const all = useQuery({ ...jobCountQuery(search), enabled: chosen.length > 0 && (isAll || isWholePage) }).data;
  if (chosen.length === 0) return null;
  const matching = all ? formatCapped(all.count, all.is_exact) : "";
  const isTooMany = !isAll && chosen.length > IDS_MAX;
  return (
    <div className={styles.bar} role="region" aria-label="Chosen jobs">
      <span className={styles.words}>
        {isAll
          ? `All ${matching} that match are chosen. `
          : `${plural(chosen.length, "job")} ${isWholePage ? "on this page" : "chosen"}. `}
        {isAll && (
          <button type="button" className={styles.link} onClick={() => onAll(false)}>
            Only the {formatCount(chosen.length)} on this page
          </button>
        )}
        {!isAll && isWholePage && hasMore && all && (
          <button type="button" className={styles.link} onClick={() => onAll(true)}>
            Select all {matching}?
          </button>
        )}
        {isTooMany && ` At most ${IDS_MAX} can be chosen one by one: choose fewer, or all that match.`}
      </span>
      {!isTooMany &&
        ACTS.map((act) => <BulkActButton key={act} act={act} search={isAll ? search : chosen.join(" ")} />)}
      <Button look="plain" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}
