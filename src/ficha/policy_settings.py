"""Turns the numbers and settings of an application into its `Policy`, which the rules read.

Each is checked here, and seconds become milliseconds. Settings that no rule reads stay out, such as the database's
address and the secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .core.policy import OWN_PREFIX, Plan, Policy, Retention, Webhooks
from .declarations import PRIORITY_BOUND, checked_plans, checked_retention, checked_webhooks, is_seconds, is_whole
from .store.base import COMMITS_KEPT_MS_MIN
from .validation import Limits


def checked_intervals(lease_s: float | None, heartbeat_s: float | None, sweep_s: float) -> tuple[float, float]:
    """The lease and the heartbeat in seconds: as given, else from the environment, else the defaults."""
    lease_s = lease_s if lease_s is not None else _milliseconds("JOB_LOCK_TTL_MS", 60_000) / 1_000
    lease_ms = _milliseconds_of(lease_s, "lease_s")
    usual_ms = min(10_000, max(1, lease_ms // 3))
    heartbeat_s = (
        heartbeat_s if heartbeat_s is not None else _milliseconds("JOB_HEARTBEAT_INTERVAL_MS", usual_ms) / 1_000
    )
    _milliseconds_of(sweep_s, "sweep_s")
    if _milliseconds_of(heartbeat_s, "heartbeat_s") > lease_ms:
        raise ValueError(
            f"heartbeat_s ({heartbeat_s:g}) is longer than lease_s ({lease_s:g}), so every job would lose its lease; "
            "make it a third of the lease or less"
        )
    return lease_s, heartbeat_s


def checked_policy(
    *,
    plans: Iterable[Plan],
    first_job_boost: int,
    batch_spacing_s: float,
    lease_s: float,
    max_recoveries: int,
    stuck_s: float,
    max_age_s: float,
    key_ttl_s: float,
    key_ttl_max_s: float,
    reservation_ttl_s: float,
    reservation_ttl_max_s: float,
    reservations_kept_s: float,
    schedule_max_s: float,
    upload_s: float,
    dead_uploads_kept_s: float,
    unused_file_s: float,
    hooks_kept_s: float,
    commits_kept_s: float,
    leave_grace_s: float,
    silent_session_s: float,
    minute_figures_kept_s: float,
    hour_figures_kept_s: float,
    warn_share: float,
    webhooks: bool | Webhooks,
    retention: Retention | None,
    limits: Limits,
) -> Policy:
    """The policy of an application that has declared no tools and hooks yet; `Ficha` describes the arguments."""
    if not is_whole(max_recoveries, 0, 1_000_000):
        raise ValueError(f"max_recoveries must be a whole number from 0 to 1000000, not {max_recoveries!r}")
    if not is_whole(first_job_boost, -PRIORITY_BOUND, PRIORITY_BOUND):
        raise ValueError(f"first_job_boost must be a whole number within ±{PRIORITY_BOUND}, not {first_job_boost!r}")
    known = checked_plans(plans)
    for name in known:
        if name.startswith(OWN_PREFIX):
            raise ValueError(f"the plan {name!r}: names with {OWN_PREFIX!r} are Ficha's own; choose another name")
    return Policy(
        plans=known,
        lease_ms=_milliseconds_of(lease_s, "lease_s"),
        max_recoveries=max_recoveries,
        stuck_ms=_milliseconds_of(stuck_s, "stuck_s"),
        max_age_ms=_milliseconds_of(max_age_s, "max_age_s"),
        key_ttl_ms=_milliseconds_within(key_ttl_s, key_ttl_max_s, "key_ttl"),
        key_ttl_max_ms=_milliseconds_of(key_ttl_max_s, "key_ttl_max_s"),
        reservation_ttl_ms=_milliseconds_within(reservation_ttl_s, reservation_ttl_max_s, "reservation_ttl"),
        reservation_ttl_max_ms=_milliseconds_of(reservation_ttl_max_s, "reservation_ttl_max_s"),
        reservations_kept_ms=_milliseconds_of(reservations_kept_s, "reservations_kept_s"),
        schedule_max_ms=_milliseconds_of(schedule_max_s, "schedule_max_s"),
        warn_share=_share(warn_share),
        first_job_boost=first_job_boost,
        batch_spacing_ms=_spacing_ms(batch_spacing_s),
        hooks_kept_ms=_milliseconds_of(hooks_kept_s, "hooks_kept_s"),
        commits_kept_ms=_commits_kept_ms(commits_kept_s),
        minute_figures_kept_ms=_figures_kept_ms(minute_figures_kept_s, "minute_figures_kept_s", 90_000),
        hour_figures_kept_ms=_figures_kept_ms(hour_figures_kept_s, "hour_figures_kept_s", 31 * 86_400),
        job_events=limits.job_events,
        late_bytes=limits.late_bytes,
        job_callbacks=limits.job_callbacks,
        file_bytes=limits.file_bytes,
        upload_ms=_milliseconds_of(upload_s, "upload_s"),
        dead_uploads_kept_ms=_milliseconds_of(dead_uploads_kept_s, "dead_uploads_kept_s"),
        unused_file_ms=_milliseconds_of(unused_file_s, "unused_file_s"),
        webhooks=checked_webhooks(webhooks),
        leave_grace_ms=_milliseconds_of(leave_grace_s, "leave_grace_s"),
        silent_session_ms=_milliseconds_of(silent_session_s, "silent_session_s"),
        open_sessions=limits.open_sessions,
        bulk_jobs=limits.bulk_jobs,
        retention=checked_retention(retention, known),
    )


def _spacing_ms(seconds: float) -> int:
    if seconds != 0 and not (is_seconds(seconds) and seconds <= 3_600):
        raise ValueError(f"batch_spacing_s must be a number of seconds from 0 to 3600, not {seconds!r}")
    return round(seconds * 1_000)


def _milliseconds(variable: str, default: int) -> int:
    """A setting from the environment, in milliseconds."""
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{variable} must be a whole number of milliseconds, not {text!r}")
    return int(text)


def _milliseconds_of(seconds: float, what: str) -> int:
    if not is_seconds(seconds):
        raise ValueError(f"{what} must be a number of seconds from a millisecond up, not {seconds!r}")
    return int(seconds * 1_000)


def _milliseconds_within(seconds: float, most_s: float, what: str) -> int:
    """A default duration, which must not be longer than callers may ask for."""
    found_ms = _milliseconds_of(seconds, f"{what}_s")
    if found_ms > _milliseconds_of(most_s, f"{what}_max_s"):
        raise ValueError(f"{what}_s ({seconds:g}) is more than {what}_max_s ({most_s:g}); raise that too")
    return found_ms


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"warn_share must be a number from 0 up, not {value!r}")
    return value


def _commits_kept_ms(seconds: float) -> int:
    kept_ms = _milliseconds_of(seconds, "commits_kept_s")
    if kept_ms < COMMITS_KEPT_MS_MIN:
        least_s = COMMITS_KEPT_MS_MIN // 1_000
        raise ValueError(
            f"commits_kept_s must be {least_s} or more, not {seconds!r}: whether a commit took place is asked for as "
            "long as half of that"
        )
    return kept_ms


def _figures_kept_ms(seconds: float, what: str, least_s: int) -> int:
    kept_ms = _milliseconds_of(seconds, what)
    if kept_ms < least_s * 1_000:
        raise ValueError(f"{what} must be {least_s} or more, not {seconds!r}: overviews look back as far as that")
    return kept_ms
