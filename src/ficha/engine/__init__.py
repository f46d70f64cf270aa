"""What stands between callers and a store: batches, sweeping, wake-ups, and the read side."""
