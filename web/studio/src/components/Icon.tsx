import type { ReactNode } from "react";

const SHAPES: Record<string, ReactNode> = {
  image_upscaler: <path d="M14 4h6v6M20 4l-7 7M10 20H4v-6M4 20l7-7" />,
  pose_changer: (
    <>
      <circle cx="13" cy="4.6" r="2.1" />
      <path d="M5 8.5l5 1.2 3-.7 4 3 3-1M10.6 9.7 10 15l4.5 2L16 21.500M10 15l-4 6" />
    </>
  ),
  outfit_changer: <path d="M9 4 4 6.5 2.8 11l3.7.8V20h11v-8.200l3.7-.8L20 6.5 15 4a3 3 0 0 1-6 0z" />,
  moods: (
    <>
      <circle cx="12" cy="12" r="4.2" />
      <path d="M12 2.500v2.200M12 19.300v2.200M2.5 12h2.200M19.3 12h2.200M5.3 5.300l1.6 1.600M17.1 17.100l1.6 1.600M5.3 18.700l1.6-1.600M17.1 6.900l1.6-1.6" />
    </>
  ),
  workflow: (
    <>
      <rect x="3" y="4" width="7" height="6" rx="1.5" />
      <rect x="14" y="14" width="7" height="6" rx="1.5" />
      <path d="M10 7h4.500a3 3 0 0 1 3 3v4M3 17h5" />
    </>
  ),
  try_on: (
    <>
      <path d="M12 9V7.600a2.3 2.3 0 1 0-2.3-2.3" />
      <path d="m12 9 9 6.500a1.5 1.5 0 0 1-.9 2.700H3.900a1.5 1.5 0 0 1-.9-2.700z" />
    </>
  ),
  product: <path d="M12 3 4 7v10l8 4 8-4V7zM4 7l8 4 8-4M12 11v10" />,
  freestyle: <path d="m4 20 1-4L16.5 4.500a2.1 2.1 0 0 1 3 3L8 19zM14 7l3 3" />,
  video_upscaler: (
    <>
      <rect x="3" y="5" width="18" height="14" rx="2" />
      <path d="M8 5v14M16 5v14M3 9.700h5M3 14.300h5M16 9.700h5M16 14.300h5" />
    </>
  ),
  library: (
    <>
      <rect x="3.5" y="3.5" width="7" height="9" rx="1.2" />
      <rect x="13.5" y="3.5" width="7" height="5" rx="1.2" />
      <rect x="3.5" y="15.5" width="7" height="5" rx="1.2" />
      <rect x="13.5" y="11.5" width="7" height="9" rx="1.2" />
    </>
  ),
  create: <path d="M12 5v14M5 12h14" />,
  plus: <path d="M12 5v14M5 12h14" />,
  minus: <path d="M5 12h14" />,
  close: <path d="M6 6l12 12M18 6 6 18" />,
  search: (
    <>
      <circle cx="10.5" cy="10.5" r="6" />
      <path d="m15 15 5 5" />
    </>
  ),
  download: <path d="M12 4v11M7 10.5 12 15.500l5-5M5 20h14" />,
  picture: (
    <>
      <rect x="3" y="4" width="18" height="16" rx="2" />
      <circle cx="8.5" cy="9.5" r="1.6" />
      <path d="m4 18 5.5-5 3.5 3 3-2.5 4.5 4" />
    </>
  ),
  demo: <path d="M4 7h9M17 7h3M4 17h3M11 17h9M15 4.500v5M9 14.500v5" />,
  check: <path d="m5 12.5 4.5 4.500L19 7.5" />,
  bang: <path d="M12 5v9M12 18.500v.5" />,
  ticket: (
    <path d="M3 7h18v3.200a1.9 1.9 0 0 0 0 3.600V17H3v-3.200a1.9 1.9 0 0 0 0-3.600zM15 7.500v1.600M15 11.200v1.600M15 14.900v1.6" />
  ),
  out: <path d="M14 4h6v6M20 4l-9 9M18 14v6H4V6h6" />,
  trash: <path d="M4 7h16M9 7V4h6v3M6.5 7l1 13h9l1-13M10 11v5.500M14 11v5.5" />,
  compare: <path d="M12 3v18M9 8l-4 4 4 4M15 8l4 4-4 4" />,
};

/** Decoration only: what it stands for is always said in words beside it. */
export function Icon({ name, size = 20 }: { name: string; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {SHAPES[name] ?? SHAPES.picture}
    </svg>
  );
}
