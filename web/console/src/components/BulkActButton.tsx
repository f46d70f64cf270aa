import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useMayAct } from "../hooks/useSignedIn";
import { api, wordsOf } from "../services/api";
import { formatCapped } from "../services/format";
import { jobCountQuery } from "../services/lists";
import { invalidate } from "../services/queries";
import type { BulkVerb } from "../services/shapes";
import { Button } from "./Button";
import { ConfirmDialog } from "./ConfirmDialog";
import { toast } from "./Toast";

export interface BulkActButtonProps {
  act: BulkVerb;
  /** The search that says which jobs: the act is run by the server on all that match, not only on those shown. */
  search: string;
  /** The button's word; the act's own unless told. */
  label?: ReactNode;
  spoken?: string;
}

const WORDS: Record<BulkVerb, { word: string; money?: string; after: string; isDangerous: boolean }> = {
  requeue: {
    word: "Requeue",
    money: "Requeue charges",
    after: "Each becomes a new job and is charged anew.",
    isDangerous: false,
  },
  discard: {
    word: "Discard",
    after: "They leave the dead letters and stay failed. Nothing is charged or paid back.",
    isDangerous: true,
  },
  cancel: {
    word: "Cancel",
    money: "Cancel gives back up to",
    after: "Queued jobs end at once; running ones are told to stop.",
    isDangerous: true,
  },
  refund: {
    word: "Refund",
    money: "Refund gives back up to",
    after: "What was charged and not paid back goes to the accounts, once for each job.",
    isDangerous: true,
  },
};

/** An act on all jobs that a search finds: says how many and what it costs, asks for a reason, and leads to its progress. */
export function BulkActButton({ act, search, label, spoken }: BulkActButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  const count = useQuery({ ...jobCountQuery(search), enabled: isOpen, staleTime: 0 });
  if (!useMayAct()) return null;
  const { word, money, after, isDangerous } = WORDS[act];
  const found = count.data;
  const jobs = found ? `${formatCapped(found.count, found.is_exact)} ${found.count === 1 ? "job" : "jobs"}` : "jobs";
  return (
    <>
      <Button aria-label={spoken} onClick={() => setOpen(true)}>
        {label ?? word}
      </Button>
      <ConfirmDialog
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        title={found ? `${word} ${jobs}?` : `${word} all that match?`}
        confirm={`${word} ${jobs}`}
        count={found && { number: found.count, isExact: found.is_exact, one: "job matches", many: "jobs match" }}
        money={
          money !== undefined && found ? { verb: money, credits: found.credits, isExact: found.is_exact } : undefined
        }
        reason="required"
        isDangerous={isDangerous}
        typed={isDangerous && found && found.count >= 100 ? act : undefined}
        problem={
          count.error
            ? `The jobs could not be counted: ${wordsOf(count.error)}`
            : !found
              ? "The jobs are being counted."
              : found.count === 0
                ? "No job matches any more."
                : undefined
        }
        onConfirm={async (reason) => {
          const begun = await api.post("/api/admin/bulk-acts", { act, search, reason, amount: null, share: null });
          toast.say(`${word} of ${jobs} has begun.`);
          void invalidate("bulk-acts", "jobs", "dead");
          await navigate({ to: "/bulk-acts", search: { act: begun.id } });
        }}
      >
        <p>{after} The server does it step by step; it can be stopped.</p>
        <p className="muted">
          Search: <code>{search.length > 200 ? `${search.slice(0, 200)}…` : search || "all jobs"}</code>
        </p>
      </ConfirmDialog>
    </>
  );
}
