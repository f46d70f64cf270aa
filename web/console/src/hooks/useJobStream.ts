import { type Connection, createFicha } from "@ficha/client";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { jobPageQuery } from "../services/queries";
import { usePaused } from "./useLive";

const ficha = createFicha();
const AT_MOST_EVERY_MS = 700;

/**
 * Follows a job while it has not ended: whenever the server tells something of it, its page is asked again, at most every
 * 700 ms. Gives how the news come; null while nothing is followed.
 */
export function useJobStream(job: string, isOver: boolean): Connection | null {
  const queries = useQueryClient();
  const isPaused = usePaused();
  const [connection, setConnection] = useState<Connection | null>(null);
  const isOn = !isOver && !isPaused;
  useEffect(() => {
    if (!isOn) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const key = jobPageQuery(job).queryKey;
    const told = ficha.subscribeToJob(job, (state) => {
      setConnection(state.connection);
      timer ??= setTimeout(() => {
        timer = undefined;
        void queries.invalidateQueries({ queryKey: key });
      }, AT_MOST_EVERY_MS);
    });
    told.done.catch(() => setConnection("lost")); // refused: what the page itself asks tells why
    return () => {
      clearTimeout(timer);
      told.close();
      setConnection(null);
    };
  }, [job, isOn, queries]);
  return connection;
}
