import type { IconName } from "./Icon";

/** Four hues carry every state; the icon and the word tell apart those that share one. */
export type Hue = "waiting" | "running" | "done" | "failed";

export interface StateLook {
  hue: Hue;
  icon: IconName;
  word: string;
}

const LOOKS: Record<string, StateLook> = {
  // jobs
  queued: { hue: "waiting", icon: "clock", word: "Queued" },
  starting: { hue: "running", icon: "play", word: "Starting" },
  running: { hue: "running", icon: "play", word: "Running" },
  completed: { hue: "done", icon: "check", word: "Completed" },
  failed: { hue: "failed", icon: "dead", word: "Failed" },
  cancelled: { hue: "waiting", icon: "cross", word: "Cancelled" },
  dead: { hue: "failed", icon: "dead", word: "Dead letter" },
  stuck: { hue: "failed", icon: "more", word: "Stuck" },
  // how a run of a job ended, where it was not the job's end
  retried: { hue: "failed", icon: "refresh", word: "Failed, to run again" },
  recovered: { hue: "failed", icon: "more", word: "Lost with its worker" },
  returned: { hue: "waiting", icon: "left", word: "Handed back" },
  accepted: { hue: "running", icon: "providers", word: "With the provider" },
  // workers
  alive: { hue: "done", icon: "check", word: "Alive" },
  silent: { hue: "failed", icon: "more", word: "Silent" },
  stopped: { hue: "waiting", icon: "stop", word: "Stopped" },
  unregistered: { hue: "waiting", icon: "help", word: "Not registered" },
  // pools and tools
  open: { hue: "done", icon: "check", word: "Open" },
  paused: { hue: "waiting", icon: "pause", word: "Paused" },
  closed: { hue: "failed", icon: "stop", word: "Closed" },
  // breakers of providers
  "breaker closed": { hue: "done", icon: "check", word: "Closed" },
  "breaker probing": { hue: "running", icon: "play", word: "Probing" },
  "breaker open": { hue: "failed", icon: "dead", word: "Open" },
  // webhooks and their deliveries
  pending: { hue: "waiting", icon: "clock", word: "Pending" },
  delivered: { hue: "done", icon: "check", word: "Delivered" },
  enabled: { hue: "done", icon: "check", word: "Enabled" },
  failing: { hue: "failed", icon: "dead", word: "Failing" },
  disabled: { hue: "waiting", icon: "cross", word: "Disabled" },
  // API keys
  live: { hue: "done", icon: "check", word: "Live" },
  expired: { hue: "waiting", icon: "clock", word: "Expired" },
  revoked: { hue: "waiting", icon: "cross", word: "Revoked" },
  // bulk acts
  done: { hue: "done", icon: "check", word: "Done" },
  // files
  stored: { hue: "done", icon: "check", word: "Stored" },
  uploading: { hue: "running", icon: "play", word: "Uploading" },
  removed: { hue: "waiting", icon: "cross", word: "Removed" },
};

/** A state that nobody listed shows its own word in waiting's hue. */
export function lookOf(state: string): StateLook {
  return LOOKS[state] ?? { hue: "waiting", icon: "help", word: state.charAt(0).toUpperCase() + state.slice(1) };
}
