import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../services/api";
import { formatCapped, formatCount, plural } from "../services/format";
import { type Job, searchesFor } from "../services/job-rows";
import { invalidate, jobCountQuery } from "../services/queries";
import type { BulkVerb } from "../services/shapes";
import styles from "./BulkBar.module.css";
import { Button } from "./Button";
import { ConfirmDialog } from "./ConfirmDialog";
import { toast } from "./Toast";

interface BulkBarProps {
  chosen: readonly Job[];
  /** How many rows are loaded, and whether the list goes on. */
  loaded: number;
  hasMore: boolean;
  search: string;
  isAll: boolean;
  onAll: (isAll: boolean) => void;
  onClear: () => void;
}

const ACTS: Record<BulkVerb, { button: string; money?: string; after: string }> = {
  requeue: {
    button: "Requeue",
    money: "Requeue charges",
    after: "Dead letters run again as new jobs; others are refused one by one.",
  },
  cancel: {
    button: "Cancel",
    money: "Cancel gives back at most",
    after: "Waiting and running jobs stop and are refunded.",
  },
  refund: {
    button: "Refund",
    money: "Refund gives back at most",
    after: "What was charged and not yet returned goes back to each account.",
  },
  discard: { button: "Discard", after: "They leave the dead letters and cannot be requeued." },
};

/** What to do with the chosen jobs. The server does it, job by job; this only says which, and why. */
export function BulkBar({ chosen, loaded, hasMore, search, isAll, onAll, onClear }: BulkBarProps) {
  const [asks, setAsks] = useState<BulkVerb | null>(null);
  const navigate = useNavigate();
  const all = useQuery({ ...jobCountQuery(search), enabled: chosen.length > 0 && (isAll || hasMore) }).data;
  const isWholePage = chosen.length === loaded;
  if (chosen.length === 0) return null;

  const count = isAll && all ? all.count : chosen.length;
  const isExact = isAll && all ? all.is_exact : true;
  const credits =
    isAll && all
      ? all.credits
      : chosen.reduce((sum, job) => sum + (asks === "requeue" ? job.cost : job.charged - job.refunded), 0);
  const words = asks ? ACTS[asks] : undefined;

  async function begin(reason: string) {
    if (!asks) return;
    const searches = isAll ? [search] : searchesFor(chosen.map((job) => job.id));
    let last = "";
    for (const one of searches) last = (await api.post("/api/admin/bulk-acts", { act: asks, search: one, reason })).id;
    onClear();
    toast.say(`${ACTS[asks].button} of ${formatCapped(count, isExact)} jobs has begun.`);
    void invalidate("bulk-acts", "jobs");
    await navigate({ to: "/bulk-acts", search: { act: last } });
  }

  return (
    <div className={styles.bar} role="region" aria-label="Chosen jobs">
      <span className={styles.words}>
        {isAll ? (
          <>
            All {formatCapped(count, isExact)} that match are chosen.{" "}
            <button type="button" className={styles.link} onClick={() => onAll(false)}>
              Only the {formatCount(chosen.length)} on this page
            </button>
          </>
        ) : (
          <>
            {plural(chosen.length, "job")} {isWholePage ? "on this page" : "chosen"}.{" "}
            {isWholePage && hasMore && all && (
              <button type="button" className={styles.link} onClick={() => onAll(true)}>
                Select all {formatCapped(all.count, all.is_exact)}?
              </button>
            )}
          </>
        )}
      </span>
      {(Object.keys(ACTS) as BulkVerb[]).map((act) => (
        <Button key={act} onClick={() => setAsks(act)}>
          {ACTS[act].button}
        </Button>
      ))}
      <Button look="plain" onClick={onClear}>
        Clear
      </Button>
      {words && asks && (
        <ConfirmDialog
          isOpen
          title={`${words.button} these jobs?`}
          confirm={`${words.button} ${formatCapped(count, isExact)} ${count === 1 ? "job" : "jobs"}`}
          count={{ number: count, isExact, one: "job" }}
          money={words.money ? { verb: words.money, credits, isExact } : undefined}
          reason="required"
          isDangerous
          onConfirm={begin}
          onClose={() => setAsks(null)}
        >
          <p>{words.after}</p>
          {isAll && (
            <p>
              Every job that <code>{search || "any search"}</code> finds, also those on other pages.
            </p>
          )}
        </ConfirmDialog>
      )}
    </div>
  );
}
