"""Between callers and a store: group commit, sweeping, wake-ups, and the read side."""
