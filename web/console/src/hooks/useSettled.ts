import { useEffect, useState } from "react";

/** The value once it has not changed for `afterMs`: what a person has typed, not each letter of it. */
export function useSettled<Value>(value: Value, afterMs = 350): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), afterMs);
    return () => clearTimeout(timer);
  }, [value, afterMs]);
  return settled;
}
