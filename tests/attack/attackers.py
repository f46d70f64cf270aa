"""Every attacker, by name, in the order in which they run: the faults come last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.attack import faults, foreign_things, large_bodies, malformed_requests, shared_parts
from tests.attack.attack import Attack

ATTACKERS: Final[dict[str, Callable[[Attack], Awaitable[None]]]] = {
    "repeated keys": large_bodies.repeated_keys,
    "huge numbers": large_bodies.huge_numbers,
    "deep and wide JSON": large_bodies.deep_and_wide,
    "surrogates": large_bodies.surrogates,
    "refused batches": shared_parts.refused_batches,
    "splitting quotes": shared_parts.splitting_quotes,
    "refused finishes": shared_parts.refused_finishes,
    "streams by the hundred": shared_parts.streams,
    "streams opened again and again": shared_parts.reopened_streams,
    "slow bodies": shared_parts.slow_bodies,
    "answers never read": shared_parts.unread_answers,
    "foreign ids in all spellings": foreign_things.foreign_ids,
    "resume beyond limits": foreign_things.resume_beyond_limits,
    "dedupe probes": foreign_things.dedupe_probes,
    "streams of a revoked key": foreign_things.revoked_streams,
    "second Host and Authorization": malformed_requests.second_headers,
    "HTTP/0.9": malformed_requests.oldest_http,
    "children killed": faults.kill_children,
    "workers killed": faults.kill_workers,
    "database connections cut": faults.cut_connections,
}
FAULTS: Final = ("children killed", "workers killed", "database connections cut")
"""Those that take a part of the server away: its users have to wait until it is back."""
