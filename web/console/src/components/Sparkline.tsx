import styles from "./Sparkline.module.css";
import type { Hue } from "./state-words";

export interface SparklineProps {
  /** Oldest first; null leaves a gap. */
  values: readonly (number | null)[];
  /** What a screen reader says: "Ready jobs over the last hour: now 4, most 31". */
  label: string;
  hue?: Hue;
  width?: number;
  height?: number;
}

/** The lines to draw, one for each run of numbers, as SVG points in a box of that size. */
export function sparkLines(values: readonly (number | null)[], width: number, height: number): string[] {
  const numbers = values.filter((value) => value !== null);
  const top = Math.max(1, ...numbers);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const lines: string[] = [];
  let points: string[] = [];
  values.forEach((value, index) => {
    if (value === null) {
      if (points.length > 0) lines.push(points.join(" "));
      points = [];
    } else {
      const y = height - 1 - (Math.max(0, value) / top) * (height - 2);
      points.push(`${(index * step).toFixed(1)},${y.toFixed(1)}`);
    }
  });
  if (points.length > 0) lines.push(points.join(" "));
  return lines;
}

export function Sparkline({ values, label, hue = "running", width = 120, height = 24 }: SparklineProps) {
  return (
    <svg className={`${styles.spark} ${styles[hue]}`} role="img" aria-label={label} width={width} height={height}>
      <title>{label}</title>
      {sparkLines(values, width, height).map((points) => (
        <polyline key={points} points={points} fill="none" stroke="currentColor" strokeWidth="1.5" />
      ))}
    </svg>
  );
}
