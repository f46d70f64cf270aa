"""The configuration of the rules, and computations on it: priority, rank, backoff, splits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from .records import WAITING, Account, Awaiting, Job, Status

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR

OWN_PREFIX: Final = "ficha:"
"""The prefix of Ficha's own plans. No application declares such a plan, and no caller can move an account to one."""
CLOSED_PLAN: Final = "ficha:closed"
"""The plan of an account that was erased. No application declares it, so that every release refuses what needs a plan.
"""

MILLION: Final = 1_000_000
"""Costs at providers are counted in millionths of the operator's currency."""
MAX_PROVIDER_COST: Final = 10**9
"""The most that one run, and all runs of a job together, may cost at a provider, in the operator's currency."""
MAX_AMOUNT: Final = 10**12
"""The largest amount of one entry, and the largest cost of one submit."""
MAX_BALANCE: Final = 2**53 - 1
"""The largest balance that added credits may reach: JSON keeps whole numbers up to here exact in every language.
A refund is never refused because of it."""

PRIORITY_MIN: Final = -2048
PRIORITY_MAX: Final = 2047
TIME_BITS: Final = 51
"""How many of the lowest bits of a rank are its time; the others are its priority."""
_LAST_TIME: Final = (1 << TIME_BITS) - 1
_RANK_EPOCH: Final = 1_577_836_800 * SECOND
"""2020-01-01: the rank's time part counts from here and lasts 71 years."""


class Plan(Struct, frozen=True):
    """What an account may do. None means no limit.

    priority: lower is served first. Defaults to 50.
    max_running: jobs ready or running at once; further ones wait parked. Defaults to no limit.
    max_active: jobs not ended, together with reservations; a further submit is refused. Defaults to no limit.
    per_hour: jobs submitted per clock hour (UTC). Defaults to no limit.
    daily_limit, monthly_limit: credits spent per UTC day or month, beyond which a submit is refused.
    daily_warning, monthly_warning: the same, but the submit passes with a warning.
    ageing_s: seconds of waiting that improve a job's priority by one. Defaults to strict priority.
    file_bytes: the largest file that may be uploaded. Defaults to the application's `Limits.file_bytes`.
    max_files: files that the account may have; a further upload is refused. Defaults to no limit.
    storage_bytes: the bytes of all its files together; an upload beyond them is refused. Defaults to no limit.
    """

    name: str
    priority: int = 50
    max_running: int | None = None
    max_active: int | None = None
    per_hour: int | None = None
    daily_limit: int | None = None
    daily_warning: int | None = None
    monthly_limit: int | None = None
    monthly_warning: int | None = None
    ageing_s: float | None = None
    file_bytes: int | None = None
    max_files: int | None = None
    storage_bytes: int | None = None


class HookTerms(Struct, frozen=True):
    """For which jobs a hook is run: those that ended in one of these states, of one of these tools (None: of any)."""

    name: str
    ends: frozenset[Status]
    tools: frozenset[str] | None = None


class TurnTerms(Struct, frozen=True, gc=False):
    """How many requests a provider takes, and when its circuit breaker opens.

    interval_us: the time between two requests, in the long run; 0 for no limit. Defaults to no limit.
    burst: how many may go out at once after a quiet time, before they are spaced. Defaults to 1.
    slack_ms: how much later than planned a request may go out. `interval_us` allows for it. Defaults to 1 s.
    at_once: how many may be out at once. Defaults to no limit.
    hold_ms: how long a request may take before its caller counts as dead. Defaults to a minute.
    longest_wait_ms: the longest that a caller waits; beyond it a turn is refused. Defaults to 30 s.
    failures: how many failures in a row open the breaker; 0 for never. Defaults to 5.
    open_ms, open_max_ms: how long it stays open the first time, and at most: each probe that fails doubles the time.
        Default to 30 s and 10 minutes.
    """

    interval_us: int = 0
    burst: int = 1
    slack_ms: int = 1_000
    at_once: int | None = None
    hold_ms: int = 60_000
    longest_wait_ms: int = 30_000
    failures: int = 5
    open_ms: int = 30_000
    open_max_ms: int = 600_000


class Webhooks(Struct, frozen=True):
    """How an application sends webhooks: messages about events, to addresses that users and the operator give.

    low_credits: a charge that takes a balance below this number sends `credits.low`. Defaults to none.
    max_endpoints: addresses per account, and of the operator. Defaults to 10.
    timeout_s: how long a receiver may take to answer. Defaults to 15.
    result_bytes: a job's result is sent along up to this size. Defaults to 64 KiB.
    overlap_s: how long earlier secrets sign beside a new one, unless a rotation says otherwise. Defaults to a day.
    disable_after_s: how long every delivery to an address may fail before it is disabled. Defaults to 5 days.
    kept_s: how long a message is kept after it was delivered or given up. Defaults to 3 days.
    resends_per_hour: how many messages to one address may be sent again in an hour. Defaults to 100.
    """

    low_credits: int | None = None
    max_endpoints: int = 10
    timeout_s: float = 15.0
    result_bytes: int = 65_536
    overlap_s: float = 86_400.0
    disable_after_s: float = 5 * 86_400.0
    kept_s: float = 3 * 86_400.0
    resends_per_hour: int = 100


class Keep(Struct, frozen=True):
    """How many days after a job's end the job, and what belongs to it, are kept; None: for ever. A number that a tool's
    `Keep` does not give is its plan's, and one that neither gives is that of `Retention`.

    jobs: the job itself, with all that belongs to it: nothing of it is kept longer.
    payloads: its payload, and the files that the payload names.
    results: its result, steps, checkpoint, what its history quotes, its files, and its payload.
    """

    jobs: float | UnsetType | None = UNSET
    payloads: float | UnsetType | None = UNSET
    results: float | UnsetType | None = UNSET


class Retention(Struct, frozen=True):
    """How many days ended jobs, and what belongs to them, are kept; None: for ever. The ledger stays for ever.

    jobs, payloads, results: for all jobs, as `Keep` describes them. Default to None.
    by_plan: other numbers for jobs that were submitted under a plan.
    by_tool: other numbers for jobs of a tool; they take precedence over those of a plan.
    by_itself: whether the leading process removes what is due; otherwise only `prune` does. Defaults to True.
    """

    jobs: float | None = None
    payloads: float | None = None
    results: float | None = None
    by_plan: Mapping[str, Keep] = {}
    by_tool: Mapping[str, Keep] = {}
    by_itself: bool = True


JOB_ENDED_HOOK: Final = "ficha:webhooks"
CREDITS_LOW_HOOK: Final = "ficha:credits-low"
"""The hooks that send messages about a job: when it ended, and when its charge took the balance below the threshold."""


class Policy(Struct, frozen=True):
    """The configuration that the rules use.

    lease_ms: how long a worker holds a job without a heartbeat. Defaults to 60 s.
    max_recoveries: lost runs after which a job is poison, if it was alone in its process in the last of them; 0: a job
        whose run is lost is never run again. Defaults to 3.
    tool_recoveries: the same for single tools. Defaults to none.
    stuck_ms: a held job whose heartbeat is older is recovered, whatever its lease says. Defaults to 10 minutes.
    max_age_ms: a job first started longer ago is ended as failed. Defaults to 24 hours.
    key_ttl_ms: how long an idempotency key is kept. Defaults to 24 hours.
    key_ttl_max_ms: the longest that a submit may ask for. Defaults to 30 days.
    reservation_ttl_ms: how long a reservation holds its slot. Defaults to 300 s.
    reservation_ttl_max_ms: the longest that a reservation may ask for. Defaults to a day.
    reservations_kept_ms: how long an ended reservation is kept after its time was over. Defaults to a day.
    schedule_max_ms: how far ahead a job may be scheduled. Defaults to 365 days.
    warn_share: the share of a quota from which a submit carries a warning. Defaults to 0.8.
    first_job_boost: taken off the priority of an account's first job ever. Defaults to 0.
    batch_spacing_ms: how much later each job of a batch counts as submitted than the one before, so that jobs of others
        pass between. Defaults to a second.
    commits_kept_ms: how long commits are kept, and so how far back streams can resume. Defaults to 24 hours.
    late_bytes: how many bytes are kept of a finish that came too late. Defaults to 4 KiB.
    job_events: how many events a job's history may have before those of its handler are no longer kept. Defaults to
        100,000.
    hooks: what is to be run once for each job that ended. Defaults to nothing.
    hooks_kept_ms: how long a hook is owed after a process last declared it. Defaults to 30 days.
    file_bytes: the largest file, whatever the plan. Defaults to 1 GiB.
    upload_ms: how long an upload may take; after that it counts as dead. Defaults to an hour.
    dead_uploads_kept_ms: how long the row of an upload that died is kept, so that bytes which arrive late are deleted.
        Defaults to a day.
    unused_file_ms: how long a file that no job has taken is kept. Defaults to a day.
    provider_tools: the tools whose work an external provider does: their jobs are `starting` until it has accepted.
    job_callbacks: how many call-backs of its provider are kept with a job. Defaults to 20.
    webhooks: how messages are sent to addresses that users and operators give. Defaults to none being sent.
    leave_grace_ms: how long after a page was left its session's queued jobs are cancelled. Defaults to 60 s.
    silent_session_ms: how long after the last sign of an open page its session's queued jobs are cancelled. Defaults
        to 10 minutes.
    bulk_jobs: jobs that one bulk act may change. Defaults to 100,000.
    open_sessions: how many sessions of one account may be open or left at a time. Defaults to 100.
    minute_figures_kept_ms, hour_figures_kept_ms: how long the figures of each minute and of each hour are kept. Default
        to 2 days and 400 days.
    retention: how long ended jobs are kept. Defaults to for ever.
    """

    plans: Mapping[str, Plan]
    lease_ms: int = 60_000
    max_recoveries: int = 3
    tool_recoveries: Mapping[str, int] = {}
    stuck_ms: int = 600_000
    max_age_ms: int = 86_400_000
    key_ttl_ms: int = 86_400_000
    key_ttl_max_ms: int = 30 * 86_400_000
    reservation_ttl_ms: int = 300_000
    reservation_ttl_max_ms: int = 86_400_000
    reservations_kept_ms: int = 86_400_000
    schedule_max_ms: int = 365 * 86_400_000
    warn_share: float = 0.8
    first_job_boost: int = 0
    batch_spacing_ms: int = 1_000
    commits_kept_ms: int = 86_400_000
    late_bytes: int = 4_096
    job_events: int = 100_000
    hooks: tuple[HookTerms, ...] = ()
    hooks_kept_ms: int = 30 * 86_400_000
    file_bytes: int = 1_073_741_824
    upload_ms: int = 3_600_000
    dead_uploads_kept_ms: int = 86_400_000
    unused_file_ms: int = 86_400_000
    provider_tools: frozenset[str] = frozenset()
    job_callbacks: int = 20
    webhooks: Webhooks | None = None
    leave_grace_ms: int = 60_000
    silent_session_ms: int = 600_000
    open_sessions: int = 100
    minute_figures_kept_ms: int = 2 * 86_400_000
    hour_figures_kept_ms: int = 400 * 86_400_000
    bulk_jobs: int = 100_000
    retention: Retention = Retention()

    @property
    def declared_plans(self) -> list[Plan]:
        """The plans that an account can be given: all but Ficha's own."""
        return [plan for name, plan in self.plans.items() if not name.startswith(OWN_PREFIX)]

    def recoveries_of(self, tool: str) -> int:
        """The tool's `max_recoveries`."""
        return self.tool_recoveries.get(tool, self.max_recoveries)

    def is_declared(self, plan: str) -> bool:
        return plan in self.plans and not plan.startswith(OWN_PREFIX)


def priority_of(plan: Plan, offset: int, boost: int) -> int:
    """A job's priority: its plan's, moved by its tool's offset and the first-job boost."""
    priority = plan.priority + offset - boost
    # (Every submit runs this; `min` and `max` take three times as long as comparisons.)
    return PRIORITY_MIN if priority < PRIORITY_MIN else PRIORITY_MAX if priority > PRIORITY_MAX else priority


def rank_of(priority: int, created_at: int) -> int:
    """The order of the queue as one number: by priority, then by time of creation."""
    time = created_at - _RANK_EPOCH
    return (priority << TIME_BITS) + (0 if time < 0 else _LAST_TIME if time > _LAST_TIME else time)


def waiting_since(rank: int) -> int:
    """From when on a job with this rank waits in its priority."""
    return _RANK_EPOCH + (rank & _LAST_TIME)


def ranks_of_priority(rank: int) -> tuple[int, int]:
    """The lowest rank of the same priority, and the lowest of the next one."""
    priority = rank >> TIME_BITS
    return priority << TIME_BITS, (priority + 1) << TIME_BITS


def aged_rank(job: Job, plan: Plan | None, now: int, behind: int = 0) -> tuple[int, int | None]:
    """Returns the rank after the waiting so far, and when it next improves; None: never.

    behind: by how much later than its submit a new job is ranked. A job that waits already keeps its own delay.
    """
    if isinstance(job.place, WAITING):
        behind = (job.place.rank & _LAST_TIME) - (rank_of(job.priority, job.created_at) & _LAST_TIME)
    since = job.created_at + behind
    if plan is None or not plan.ageing_s:
        return rank_of(job.priority, since), None
    point = int(plan.ageing_s * SECOND)
    gained = max(0, now - since) // point
    priority = max(PRIORITY_MIN, job.priority - gained)
    return rank_of(priority, since), max(now, since + (gained + 1) * point)


def backoff_ms(job: Job, jitter: float) -> int:
    """How long a failed job waits: doubling per failure, capped, then spread over the upper half."""
    full = min(job.spec.backoff_max_ms, job.spec.backoff_ms << min(job.attempts, 40))
    return full - int(full * jitter / 2)


def hook_backoff_ms(attempts: int) -> int:
    """How long a hook that failed waits: doubling from a second up to five minutes."""
    return min(300_000, 1_000 << min(max(attempts, 1) - 1, 20))


POLL_LONGEST_MS: Final = 300_000
LAST_POLL_MS: Final = 5_000
"""`POLL_LONGEST_MS`: the longest time between two polls of a provider, unless it asks for a longer one. `LAST_POLL_MS`:
how long before the job's deadline the last poll comes, at most."""


def poll_wait_ms(place: Awaiting, now: int, poll_ms: int) -> int:
    """Returns how long after `now` a provider is polled about a job: half the time that it has had the job, but at
    least `poll_ms`; and early enough for a last poll shortly before the job's deadline."""
    had_ms = max(0, now - place.since_at) // MILLISECOND
    wait_ms = max(poll_ms, min(had_ms // 2, POLL_LONGEST_MS))
    last_ms = (place.deadline_at - now) // MILLISECOND - min(poll_ms, LAST_POLL_MS)
    return min(wait_ms, last_ms) if last_ms > 0 else wait_ms


TELL_PROVIDER: Final = "ficha:tell-provider"
"""The hook that cancels a job at its provider."""


def millionths(amount: Any) -> int | None:
    """An amount of the operator's currency in millionths; None if it is not a number from 0 to the largest allowed."""
    is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
    return round(amount * MILLION) if is_number and 0 <= amount <= MAX_PROVIDER_COST else None


def split(count: int, at_most: int) -> list[tuple[int, int]]:
    """Splits a count into parts of at most `at_most`, as even as possible. Returns each size, and how many parts have
    it: 10 by 4 is 4, 3, 3, so one of 4 and two of 3."""
    parts = -(-count // at_most)
    size, larger = divmod(count, parts)
    return [*([(size + 1, larger)] if larger else []), (size, parts - larger)]


def hour_of(at: int) -> int:
    return at - at % HOUR


def submits_this_hour(account: Account, now: int) -> int:
    return account.hour_submits if account.hour_at == hour_of(now) else 0


def day_of(at: int) -> int:
    return at - at % DAY


def month_of(at: int) -> int:
    """The first instant of the UTC month."""
    return _month_of_day(at // DAY)


@lru_cache(maxsize=64)
def _month_of_day(day: int) -> int:
    moment = datetime.fromtimestamp(day * DAY // SECOND, UTC)
    return int(datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp()) * SECOND
