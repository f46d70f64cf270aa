"""Hooks that no live worker runs. Late calls are an alert; here is what has not become late yet."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .database import Looking
from .findings import Finding
from .looked_over import LookedOver


async def hooks(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    async with seen.app.separate_operations(sweeps=False, creates=False) as operations:
        declared = await operations.declared_hooks()
    for hook in declared:
        if hook.state == "run" or not hook.ends:
            continue
        since = "no worker has ever run it" if hook.run_at is None else f"the last ran it at {hook.run_at:%F %T} UTC"
        yield Finding(
            "hooks",
            "HOOK_NOT_RUN",
            "note",
            f"No live worker runs the hook {hook.name} ({since}); {hook.owed} calls are owed.",
            "Start a worker with the module that declares it. `ficha hooks forget` ends a hook that is gone for good.",
        )
