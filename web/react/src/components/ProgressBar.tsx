/** A bar with a value, or one that only moves where none is known. */
export function ProgressBar({ value, label }: { value: number | null; label: string }) {
  const known = value === null ? {} : { "aria-valuenow": value };
  return (
    <div
      className="ficha-bar"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      data-unknown={value === null || undefined}
      {...known}
    >
      <div className="ficha-bar-fill" style={value === null ? undefined : { inlineSize: `${value}%` }} />
    </div>
  );
}
