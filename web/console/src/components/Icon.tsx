// Icons are drawn on a grid of 16, with a line of 1.5, in the colour of the text. They are decoration: a word stands
// beside each, or the button has a label.
const SHAPES = {
  overview: "M2 13.5h12M4 11V8M8 11V3.5M12 11V6",
  jobs: "M2.5 4h.01M2.5 8h.01M2.5 12h.01M5.5 4h8M5.5 8h8M5.5 12h8",
  dead: "M8 2.2 14.3 13H1.7L8 2.2ZM8 6.5v3M8 11.2v.01",
  batches: "M8 2 14 5 8 8 2 5l6-3ZM2 8l6 3 6-3M2 11l6 3 6-3",
  bulk: "M2.5 3.5h8M2.5 7.5h5M2.5 11.5h4M9 11l2 2 3.5-4.5",
  accounts: "M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8ZM2.5 14c.6-2.6 2.8-4 5.5-4s4.9 1.4 5.5 4",
  pools: "M2.5 2.5h4.5v4.5H2.5ZM9 2.5h4.5v4.5H9ZM2.5 9h4.5v4.5H2.5ZM9 9h4.5v4.5H9Z",
  workers: "M3.5 3.5h9v9h-9ZM6.5 6.5h3v3h-3ZM6 1.5v2M10 1.5v2M6 12.5v2M10 12.5v2M1.5 6h2M1.5 10h2M12.5 6h2M12.5 10h2",
  providers: "M4.5 12.5a3 3 0 0 1-.4-6A4 4 0 0 1 11.8 6a3.3 3.3 0 0 1-.3 6.5Z",
  tools:
    "M9.8 2.6a3.6 3.6 0 0 0-3.5 5L2.4 11.5l2.1 2.1 3.9-3.9a3.6 3.6 0 0 0 4.7-4.5l-2.2 2.1-2-2 2.1-2.3a3.6 3.6 0 0 0-1.2-.4Z",
  webhooks: "M8 5.5a2 2 0 1 0-1.6-.8L4 9.5M4 13.5a2 2 0 1 1 1.7-3h4.8M12 9.5a2 2 0 1 1-1.7 3M9.3 5 12 9.5",
  keys: "M10.5 9a3.5 3.5 0 1 0-3.3-2.3L2 12v2h2.5v-1.5H6V11h1.5l1.3-1.4c.5.3 1.1.4 1.7.4ZM11 5h.01",
  audit: "M3.5 1.8h6l3 3v9.4h-9ZM9 2v3.2h3.2M5.8 8h4.4M5.8 10.8h4.4",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM14 14l-3.4-3.4",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M3.4 12.6l1.1-1.1M11.5 4.5l1.1-1.1",
  moon: "M13.5 9.5A6 6 0 1 1 6.5 2.5a4.8 4.8 0 0 0 7 7Z",
  system: "M2 3h12v8H2ZM6 14h4M8 11v3",
  out: "M6.5 2.5h-4v11h4M6 8h8M11 5l3 3-3 3",
  help: "M8 14.3A6.3 6.3 0 1 0 8 1.7a6.3 6.3 0 0 0 0 12.6ZM6.2 6.2A1.9 1.9 0 1 1 8 8.6v.9M8 11.7v.01",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M4.5 3v10l8-5Z",
  check: "M3 8.5l3.2 3.2L13 4.8",
  cross: "M4 4l8 8M12 4l-8 8",
  clock: "M8 14.3A6.3 6.3 0 1 0 8 1.7a6.3 6.3 0 0 0 0 12.6ZM8 4.5V8l2.4 1.6",
  refresh: "M13.5 3v3.5H10M13.2 6.5A5.6 5.6 0 1 0 13.6 9",
  copy: "M5.5 5.5h8v8h-8ZM3.5 10.5h-1v-8h8v1",
  link: "M6.5 3.5h-4v10h10v-4M9 2.5h4.5V7M13.5 2.5 7 9",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4 6 8l4 4",
  up: "M4 10l4-4 4 4",
  plus: "M8 3v10M3 8h10",
  file: "M3.5 1.8h6l3 3v9.4h-9ZM9 2v3.2h3.2",
  table: "M2 3h12v10H2ZM2 6.5h12M6.5 3v10",
  stop: "M4 4h8v8H4Z",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  bolt: "M9 1.8 3.5 9H8l-1 5.2L12.5 7H8Z",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 16, className }: { name: IconName; size?: number; className?: string }) {
  return (
    <svg
      className={className}
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={SHAPES[name]} />
    </svg>
  );
}
