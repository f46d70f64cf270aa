import type { Tone } from "../describe";

/** One shape for each state, so that colour says nothing alone. */
const SHAPES: Record<Tone, string> = {
  waiting: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 4v5l3.5 2",
  running: "M12 3a9 9 0 1 1-8.5 6M3 4v5h5",
  done: "M4 12.5 9.5 18 20 7",
  failed: "M12 3 2.5 20h19L12 3Zm0 7v5m0 2.5v.1",
  cancelled: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM6 6l12 12",
  paused: "M8 5v14M16 5v14",
};

export function Icon({ tone }: { tone: Tone }) {
  return (
    <svg className="ficha-icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={SHAPES[tone]} />
    </svg>
  );
}
