import { useNow } from "../hooks/use-now";
import { formatAgo, formatDue, formatFull } from "../services/format";

export interface TimeAgoProps {
  /** An ISO time or a Date; null shows `never`. */
  at: string | Date | null | undefined;
  /** What stands in place of a time that is not there. */
  never?: string;
  /** Whether it is when something is to happen: what is late reads "now". */
  isDue?: boolean;
}

/** "3 min ago"; the title has the reader's zone and UTC. */
export function TimeAgo({ at, never = "–", isDue = false }: TimeAgoProps) {
  if (at === null || at === undefined) return <span>{never}</span>;
  const time = typeof at === "string" ? new Date(at) : at;
  if (Number.isNaN(time.getTime())) return <span>{String(at)}</span>;
  return <Shown time={time} isDue={isDue} />;
}

function Shown({ time, isDue }: { time: Date; isDue: boolean }) {
  const words = useNow((now) => (isDue ? formatDue : formatAgo)(time, now));
  return (
    <time dateTime={time.toISOString()} title={formatFull(time)}>
      {words}
    </time>
  );
}
