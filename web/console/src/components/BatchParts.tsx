import { api, type Schemas } from "../services/api";
import { plural, shortId } from "../services/format";
import { ActButton } from "./ActButton";
import { Bar, type BarPart } from "./Bar";

type Batch = Schemas["BatchView"];

const ORDER: [status: string, hue: BarPart["hue"], isStriped: boolean][] = [
  ["completed", "done", false],
  ["running", "running", false],
  ["starting", "running", true],
  ["queued", "waiting", false],
  ["cancelled", "waiting", true],
  ["failed", "failed", false],
];

/** A batch's jobs by status, the ended ones first. */
export function batchParts(byStatus: Record<string, number>): BarPart[] {
  return ORDER.map(([status, hue, isStriped]) => ({ label: status, value: byStatus[status] ?? 0, hue, isStriped }));
}

export function BatchBar({ batch, withWords }: { batch: Batch; withWords: boolean }) {
  return <Bar label="Jobs by status" parts={batchParts(batch.by_status)} total={batch.total} withWords={withWords} />;
}

const left = (batch: Batch): number =>
  (batch.by_status.queued ?? 0) + (batch.by_status.starting ?? 0) + (batch.by_status.running ?? 0);
const notDone = (batch: Batch): number => (batch.by_status.failed ?? 0) + (batch.by_status.cancelled ?? 0);

export function CancelBatch({ batch }: { batch: Batch }) {
  if (left(batch) === 0) return null;
  return (
    <ActButton
      label="Cancel"
      spoken={`Cancel batch ${shortId(batch.id)}`}
      title="Cancel this batch?"
      confirm={`Cancel ${plural(left(batch), "job")}`}
      count={{ number: left(batch), one: "job has not ended", many: "jobs have not ended" }}
      reason="required"
      isDangerous
      refresh={["batches", "jobs"]}
      run={async (reason) => {
        const path = { batch_id: batch.id };
        const { cancelled } = await api.post("/api/batches/{batch_id}/cancel", { reason }, { path });
        return `${plural(cancelled, "job")} cancelled.`;
      }}
    >
      <p>Queued jobs end at once; running ones are told to stop. Their credits go back to {batch.account}.</p>
    </ActButton>
  );
}

/** Why a resume left jobs as they are. */
const LEFT: Record<string, string> = {
  waiting: "waiting already",
  failed: "failed and no dead letters",
  changed: "changed meanwhile",
};

export function ResumeBatch({ batch }: { batch: Batch }) {
  if (notDone(batch) === 0) return null;
  return (
    <ActButton
      label="Resume"
      spoken={`Resume batch ${shortId(batch.id)}`}
      title="Run what failed again?"
      confirm={`Run ${plural(notDone(batch), "job")} again`}
      count={{ number: notDone(batch), one: "job failed or was cancelled", many: "jobs failed or were cancelled" }}
      refresh={["batches", "jobs", "accounts"]}
      run={async () => {
        const { resumed, refused, refusal, left } = await api.post("/api/batches/{batch_id}/resume", undefined, {
          path: { batch_id: batch.id },
        });
        const rest = refused > 0 ? ` ${plural(refused, "job")} refused: ${refusal?.message ?? "no reason given"}` : "";
        const others = Object.entries(left).filter(([why]) => why !== "refused");
        const asIs = others.map(([why, jobs]) => `${jobs} ${LEFT[why] ?? why}`).join(", ");
        return `${plural(resumed, "job")} submitted again.${rest}${asIs && ` Left as they are: ${asIs}.`}`;
      }}
    >
      <p>Each becomes a new job of the same batch and is charged to {batch.account} anew.</p>
    </ActButton>
  );
}
