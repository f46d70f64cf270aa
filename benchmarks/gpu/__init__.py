"""How busy a worker keeps a device: a plain handler with jobs_per_call, beside a bare loop over the same calls."""
