import { Link } from "@tanstack/react-router";
import { shortId } from "../services/format";

/** A job's id, cut short, that leads to its page. */
export function JobLink({ id }: { id: string | null }) {
  if (id === null) return <span>–</span>;
  return (
    <Link to="/jobs/$job" params={{ job: id }} className="mono" title={id}>
      {shortId(id)}
    </Link>
  );
}

export function AccountLink({ id }: { id: string | null }) {
  if (id === null) return <span>–</span>;
  return (
    <Link to="/accounts/$account" params={{ account: id }}>
      {id}
    </Link>
  );
}
