import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schemas } from "../services/api";
import { type Column, DataTable } from "./DataTable";
import { AccountLink, JobLink } from "./JobLink";
import { Money } from "./Money";
import { StateBadge } from "./StateBadge";
import { TimeAgo } from "./TimeAgo";

type Job = Schemas["JobView"];

const columns = (credits: (job: Job) => number): Column<Job>[] => [
  { id: "id", header: "Job", cell: (job) => <JobLink id={job.id} />, onPhone: "title" },
  { id: "state", header: "State", cell: (job) => <StateBadge state={job.status} /> },
  { id: "tool", header: "Tool", cell: (job) => job.tool },
  { id: "account", header: "Account", cell: (job) => <AccountLink id={job.account} /> },
  {
    id: "error",
    header: "Error",
    width: "grow",
    cell: (job) => <span title={job.error ?? undefined}>{job.error ?? "–"}</span>,
  },
  { id: "attempts", header: "Failed runs", align: "right", cell: (job) => `${job.attempts} of ${job.max_attempts}` },
  { id: "cost", header: "Credits", align: "right", cell: (job) => <Money credits={credits(job)} isBare /> },
  { id: "at", header: "When", align: "right", cell: (job) => <TimeAgo at={job.finished_at ?? job.created_at} /> },
];

const COLUMNS = {
  kept: columns((job) => job.charged - job.refunded),
  "to run again": columns((job) => job.cost),
};

interface JobRowsProps {
  label: string;
  jobs: Job[];
  /** Which credits of each job are shown. */
  credits: keyof typeof COLUMNS;
  empty: ReactNode;
}

/** A short list of jobs on another page; the Jobs page has the full one. */
export function JobRows({ label, jobs, credits, empty }: JobRowsProps) {
  const navigate = useNavigate();
  return (
    <DataTable
      label={label}
      columns={COLUMNS[credits]}
      rows={jobs}
      rowKey={(job) => job.id}
      onOpen={(job) => void navigate({ to: "/jobs/$job", params: { job: job.id } })}
      empty={empty}
    />
  );
}
