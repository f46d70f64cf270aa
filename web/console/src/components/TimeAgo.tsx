import { useNow } from "../hooks/use-now";
import { formatAgo, formatFull } from "../services/format";

export interface TimeAgoProps {
  /** An ISO time or a Date; null shows `never`. */
  at: string | Date | null | undefined;
  /** What stands in place of a time that is not there. */
  never?: string;
}

/** "3 min ago"; the title has the reader's zone and UTC. */
export function TimeAgo({ at, never = "–" }: TimeAgoProps) {
  if (at === null || at === undefined) return <span>{never}</span>;
  const time = typeof at === "string" ? new Date(at) : at;
  if (Number.isNaN(time.getTime())) return <span>{String(at)}</span>;
  return <Shown time={time} />;
}

function Shown({ time }: { time: Date }) {
  const words = useNow((now) => formatAgo(time, now));
  return (
    <time dateTime={time.toISOString()} title={formatFull(time)}>
      {words}
    </time>
  );
}
