"""Random but plausible workloads over a small world, for hypothesis.

A workload is a list of steps, and a step is how far the clock moves (in microseconds, sometimes back) and the commit
group that is decided then. The first step opens the world: pools and accounts. Identifiers come from a counter, so
that a workload is the same each time and fits every store: jobs, reservations and batches are named like UUIDs.

    @given(workloads())
    def test_something(workload):
        for step_us, group in workload: ...

Decide the commands under `POLICY`, from `START_AT` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.checkpoints import Checkpoints
from ficha.core.figures import TOTAL, rollup_key
from ficha.core.policy import (
    CREDITS_LOW_HOOK,
    HOUR,
    JOB_ENDED_HOOK,
    SECOND,
    TELL_PROVIDER,
    HookTerms,
    Keep,
    Plan,
    Policy,
    Retention,
    TurnTerms,
    Webhooks,
)
from ficha.core.records import (
    Awaiting,
    Brake,
    BulkAct,
    Delivery,
    Figures,
    File,
    Job,
    JobCounts,
    Leased,
    QueueCount,
    Schedule,
    WebhookEndpoints,
)
from ficha.core.schedules import FREE
from tests.core.world import World
from tests.support.new_jobs import new_job

Step = tuple[int, tuple[c.Command, ...]]
Workload = list[Step]
T = TypeVar("T")

START_AT = 1_774_994_400_000_000
"""2026-03-31 22:00 UTC: the hour, the day and the month soon end."""

POLICY = Policy(
    plans={
        plan.name: plan
        for plan in (
            Plan(
                "tight",
                priority=30,
                max_running=1,
                max_active=4,
                per_hour=4,
                daily_limit=25,
                daily_warning=10,
                file_bytes=40,
                max_files=3,
                storage_bytes=60,
            ),
            Plan("wide", priority=10, max_running=2, per_hour=5, monthly_limit=60, monthly_warning=30, ageing_s=45),
            Plan("single", priority=50, max_active=1),
            Plan("boundless", priority=50),
            Plan(FREE),
        )
    },
    max_recoveries=2,
    key_ttl_ms=3_600_000,
    reservations_kept_ms=3_600_000,
    first_job_boost=20,
    file_bytes=100,
    hooks=(
        HookTerms("told", frozenset({"completed", "failed", "cancelled"})),
        HookTerms("paid back", frozenset({"failed"}), frozenset({"image"})),
        HookTerms(JOB_ENDED_HOOK, frozenset({"completed", "failed", "cancelled"})),
    ),
    webhooks=Webhooks(low_credits=20, max_endpoints=2, disable_after_s=60, kept_s=30, resends_per_hour=2),
    provider_tools=frozenset({"video"}),
    job_callbacks=3,
    silent_session_ms=300_000,
    open_sessions=2,
    retention=Retention(jobs=1 / 96, payloads=1 / 1440, results=1 / 288, by_plan={"wide": Keep(jobs=1 / 1440)}),
)

ACCOUNTS = {"ana": "tight", "bob": "wide", "eva": "single"}
POOLS = {"gpu": 2, "cpu": 1, "net": None}
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""No id is greater."""
MISSING = "00000000-0000-7000-8000-ffffffffffff"
"""The id of a job, a reservation, a batch and an API key that never exist."""

_OPENING: tuple[c.Command, ...] = (
    *(c.DeclarePool(name, slots) for name, slots in POOLS.items()),
    *(c.OpenAccount(name, plan, credits=30) for name, plan in ACCOUNTS.items()),
    *(
        c.Submit(
            account, (new_job("", "image", pool, '{"n": 0}', cost=2, max_attempts=attempts, content_hash=content),)
        )
        for account, pool, attempts, content in (
            *(("ana", "gpu", 2, "c1"), ("ana", "cpu", 1, None), ("ana", "gpu", 1, None)),
            *(("bob", "gpu", 1, "c1"), ("bob", "gpu", 3, "c2"), ("bob", "net", 2, None)),
            ("eva", "gpu", 1, None),
        )
    ),
    c.Claim("w0", ("gpu",), limit=2),
    c.Finish("held 0", c.Failed("it broke"), epoch=0),
    c.Finish("held 0", c.Completed('"done"'), epoch=0),
    c.Reserve("", "bob"),
    c.AddEndpoint("ana", "", "https://ana.example/", "s0"),
    c.AddEndpoint("", "", "https://operator.example/", "s0"),
    c.PingEndpoint("ana", "0", "", "{}"),
    c.BeginFile("", "ana", "cat.png", most=20),
    c.StoreFile("0", "", 10, "image/png", "digest"),
    c.ActingAs("boss", c.CreateApiKey("", "ci", "hint", "", "admin")),
)
"""From the beginning there are jobs ready, parked, completed and dead; a content, reservation, file and API key."""


def workloads(
    *, min_steps: int = 4, max_steps: int = 20, resizes: bool = True, prunes: bool = False
) -> SearchStrategy[Workload]:
    """Whole workloads. Without `resizes` no pool ever changes its size, so that none may ever be overfull. With
    `prunes`, jobs leave, and accounts are erased."""
    kinds = _KINDS if resizes else [kind for kind in _KINDS if kind is not _RESIZES]
    kinds = [*kinds, *[_PRUNES] * 12] if prunes else kinds
    command = st.tuples(_ACTORS, st.sampled_from(kinds).flatmap(lambda kind: kind)).map(_in_the_name)
    groups = st.lists(command, min_size=1, max_size=5)
    return st.lists(st.tuples(_CLOCK_STEPS, groups), min_size=min_steps, max_size=max_steps).map(_told)


def _in_the_name(drawn: tuple[str | None, Any]) -> c.Command:
    actor, command = drawn
    return command if actor is None else c.ActingAs(actor, command)


def _told(drafts: list[tuple[int, list[c.Command]]]) -> Workload:
    """Gives every draft its identifiers: new ones in order, and references to what there is when its turn comes."""
    teller = _Teller()
    workload: Workload = [(0, teller.told(0, _OPENING))]
    workload += [(step, teller.told(step, group)) for step, group in drafts]
    return workload


class _Teller:
    """Runs the workload while it is made up, so that most commands are about something that is there.

    In a draft a job is a word for where to look and a number, `held 2` or `dead 0`; a reservation, a batch, a file or
    an API key is a number; an epoch is how far it is from the right one.
    """

    def __init__(self) -> None:
        self._ids: Iterator[int] = count(1)
        self._world = World(POLICY, now=START_AT)
        self._is_lost = False

    def told(self, step: int, drafts: Iterable[c.Command]) -> tuple[c.Command, ...]:
        self._world.now += step
        return tuple(self._tell(draft) for draft in drafts)

    def _tell(self, draft: c.Command) -> c.Command:
        command = self._fill_in(draft)
        if not self._is_lost:
            try:
                self._world.run(command)
            except Exception:
                # The test that asked for the workload will meet the same error, and show it better.
                self._is_lost = True
        return command

    def _fill_in(self, draft: Any) -> c.Command:
        match draft:
            case c.ActingAs():
                return c.ActingAs(draft.actor, self._fill_in(draft.command))
            case c.CreateApiKey():
                key_id = self._new_id()
                return replace(draft, key_id=key_id, digest=f"digest of {key_id}")
            case c.RevokeApiKey() | c.UseApiKey():
                return replace(draft, key_id=self._one_of(self._world.state.api_keys, draft.key_id))
            case c.Submit():
                batches = self._world.state.batches
                part_of = self._new_id() if draft.counts_parts else None
                return replace(
                    draft,
                    jobs=tuple(
                        replace(
                            job,
                            id=self._new_id(),
                            files=tuple(map(self._file, job.files)),
                            spec=replace(job.spec, part_of=part_of),
                        )
                        for job in draft.jobs
                    ),
                    batch_id=self._one_of(batches, draft.batch_id or "9")
                    if draft.joins
                    else (self._new_id() if len(draft.jobs) > 1 else None),
                    reservation_id=None if draft.reservation_id is None else self._reservation(draft.reservation_id),
                )
            case c.CancelJob():
                # The other parts of its request, and jobs that are none.
                jobs = self._world.state.jobs
                job = jobs.get(job_id := self._job(draft.job_id))
                part_of = None if job is None else job.spec.part_of
                parts = [one.id for one in jobs.values() if part_of is not None and one.spec.part_of == part_of]
                return replace(draft, job_id=job_id, parts=(*parts, *(self._job(one) for one in draft.parts)))
            case c.HoldBack():
                waiting = self._world.state.jobs.get(job_id := self._job(draft.job_id))
                return c.HoldBack(job_id, "gpu" if waiting is None else waiting.spec.pool)
            case c.SettleTool():
                brake = self._world.state.of(Brake).get(f"tool {draft.tool}")
                return draft if brake is None else replace(draft, since_at=brake.since_at, paused=brake.paused)
            case c.Requeue():
                return c.Requeue(self._job(draft.job_id), self._new_id())
            case c.Resubmit():
                return replace(draft, job_id=self._job(draft.job_id), new_id=self._new_id())
            case c.RemoveWork():
                job = self._world.state.jobs.get(job_id := self._job(draft.job_id))
                files = [file.id for file in self._world.state.of(File).values() if file.job_id == job_id]
                owner = draft.account_id or ("nobody" if job is None else job.account_id)
                return c.RemoveWork(owner, job_id, (*files, MISSING))
            case c.Reserve():
                return replace(draft, reservation_id=self._new_id())
            case c.EndReservation() | c.ExpireReservation():
                return replace(draft, reservation_id=self._reservation(draft.reservation_id))
            case c.BeginFile():
                known = self._file(draft.file_id) if draft.file_id else ""
                run = None if draft.run is None else self._run(draft.run)
                held = self._world.state.jobs.get(run.job_id) if run is not None else None
                return replace(
                    draft,
                    file_id=known or self._new_id(),
                    account_id=draft.account_id if held is None else held.account_id,
                    reservation_id=None if draft.reservation_id is None else self._reservation(draft.reservation_id),
                    run=run,
                )
            case c.StoreFile() | c.RemoveFile() | c.ExpireFile() | c.ForgetFile():
                file = self._world.state.of(File).get(file_id := self._file(draft.file_id))
                changes: dict[str, Any] = {"file_id": file_id}
                if hasattr(draft, "account_id"):
                    changes["account_id"] = draft.account_id or ("ana" if file is None else file.account_id)
                if isinstance(draft, c.ExpireFile):
                    changes["job_id"] = None if file is None else file.job_id
                if isinstance(draft, c.StoreFile) and file is not None and file.role == "result":
                    job = self._world.state.jobs[file.job_id or ""]
                    is_away = isinstance(job.place, Awaiting)
                    changes["run"] = c.FileRun(job.id, *((None, job.attempts) if is_away else (job.epoch, None)))
                return replace(draft, **changes)
            case c.AddEndpoint():
                return replace(draft, endpoint_id=self._new_id())
            case c.ChangeEndpoint() | c.RotateSecret() | c.PingEndpoint():
                found = self._world.state.of(WebhookEndpoints).get(draft.owner, WebhookEndpoints(draft.owner))
                told = replace(draft, endpoint_id=self._one_of([one.id for one in found.endpoints], draft.endpoint_id))
                return replace(told, delivery_id=self._new_id()) if isinstance(draft, c.PingEndpoint) else told
            case c.MakeDeliveries():
                owing = [job_id for name, job_id in self._world.state.hooks if name == draft.hook]
                job = self._world.state.jobs.get(job_id := self._one_of(owing, draft.job_id))
                hook = self._world.state.hooks.get((draft.hook, job_id))
                account = "ana" if job is None else job.account_id
                ends = self._world.state.of(WebhookEndpoints)
                names = [(owner, one.id) for owner in (account, "") if owner in ends for one in ends[owner].endpoints]
                return replace(
                    draft,
                    job_id=job_id,
                    account_id=account,
                    attempt=draft.attempt + (0 if hook is None else hook.attempts),
                    deliveries=tuple((owner, endpoint, self._new_id()) for owner, endpoint in names),
                )
            case c.HoldDelivery() | c.EndDelivery() | c.ResendDelivery() | c.ForgetDelivery():
                known_ones = self._world.state.of(Delivery)
                sent = known_ones.get(delivery_id := self._one_of(known_ones, draft.delivery_id))
                filled: dict[str, Any] = {"delivery_id": delivery_id}
                if getattr(draft, "owner", None) == "its":
                    filled["owner"] = "ana" if sent is None else sent.owner
                if isinstance(draft, c.EndDelivery):
                    filled["attempt"] = draft.attempt + (0 if sent is None else sent.attempts)
                return replace(draft, **filled)
            case c.BeginBulkAct():
                return replace(draft, act_id=self._new_id(), before_id=LAST)
            case c.HoldBulkAct() | c.StopBulkAct():
                return replace(draft, act_id=self._one_of(self._world.state.of(BulkAct), draft.act_id))
            case c.AdvanceBulkAct():
                acts = self._world.state.of(BulkAct)
                running = acts.get(act_id := self._one_of(acts, draft.act_id))
                makes = running is not None and running.act == "requeue"
                named = {self._job(job): self._new_id() if makes else None for job, _ in draft.jobs}
                return replace(
                    draft,
                    act_id=act_id,
                    hold=draft.hold + (0 if running is None else running.holds),
                    from_id=LAST if running is None else running.before_id,
                    jobs=tuple(named.items()),
                    before_id=None if draft.before_id is None else min(named),
                )
            case c.FireSchedule() | c.RunSchedule():
                filled = {}
                if isinstance(draft, c.FireSchedule):
                    known = self._world.state.of(Schedule).get(draft.name)
                    settled = 0 if known is None else known.slot_at
                    filled = {"from_at": settled + draft.from_at, "slot_at": settled + draft.from_at + draft.slot_at}
                if draft.submit is None:
                    return replace(draft, **filled)
                cost = 0 if draft.account_id == FREE else 3
                made = new_job(self._new_id(), "quick", "gpu", "{}", cost)
                return replace(draft, submit=c.Submit(draft.account_id, (made,)), **filled)
            case c.PruneJobs():
                return self._prune(draft)
            case c.CloseAccount():
                keys = self._world.state.api_keys.values()
                return replace(draft, api_keys=tuple(key.id for key in keys if key.account_id == draft.account_id))
            case c.EraseRows():
                state = self._world.state
                return replace(
                    draft,
                    keys=tuple(
                        (key.scope, key.key) for key in state.keys.values() if key.account_id == draft.account_id
                    ),
                    reservations=tuple(
                        one.id for one in state.reservations.values() if one.account_id == draft.account_id
                    ),
                    deliveries=tuple(
                        one.id for one in state.of(Delivery).values() if one.account_id == draft.account_id
                    ),
                )
            case c.EndSession():
                named = (draft.account_id, draft.session)
                mine = [job for job in self._world.state.jobs.values() if (job.account_id, job.spec.session) == named]
                return replace(draft, jobs=(*(job.id for job in mine[-4:]), *map(self._job, draft.jobs)))
            case c.ClaimJob():
                job = self._world.state.jobs.get(job_id := self._job(draft.job_id))
                return replace(draft, job_id=job_id, pool=draft.pool or ("gpu" if job is None else job.spec.pool))
            case c.HoldPoll(held_at=int()) | c.EndPoll():
                job = self._world.state.jobs.get(job_id := self._job(draft.job_id))
                held_at = getattr(None if job is None else job.place, "poll_at", None)
                return replace(draft, job_id=job_id, held_at=held_at or 0)
            case _ if hasattr(draft, "job_id"):
                job_id = self._job(draft.job_id)
                if getattr(draft, "epoch", None) is None:
                    return replace(draft, job_id=job_id)
                job = self._world.state.jobs.get(job_id)
                return replace(draft, job_id=job_id, epoch=max(0, draft.epoch + (job.epoch if job else 1)))
            case _:
                return draft

    def _prune(self, draft: c.PruneJobs) -> c.Command:
        """Some jobs of one account, with what belongs to them."""
        state = self._world.state
        first = state.jobs.get(self._job(draft.jobs[0].id))
        if first is None:
            return replace(draft, account_id="ana", jobs=(c.OldJob(MISSING),))
        mine = [job for job in state.jobs.values() if job.account_id == first.account_id][-len(draft.jobs) :]
        named = {job.id: job for job in (first, *mine)}
        files = [file for file in state.of(File).values() if file.account_id == first.account_id]
        old = tuple(
            c.OldJob(
                job.id,
                tuple(file.id for file in files if file.job_id == job.id and file.role == "result"),
                tuple(file.id for file in files if file.uses)[:1],
                None if job.spec.content_hash is None else (job.spec.tool, job.spec.content_hash),
            )
            for job in named.values()
        )
        others = {job.batch_id for job in state.jobs.values() if job.id not in named}
        batches = tuple({job.batch_id: None for job in named.values() if job.batch_id and job.batch_id not in others})
        submitted = state.accounts[first.account_id].submitted + draft.submitted
        return c.PruneJobs(draft.account_id or first.account_id, old, batches, submitted)

    def _new_id(self) -> str:
        return f"00000000-0000-7000-8000-{next(self._ids):012x}"

    def _job(self, draft: str) -> str:
        where, number = draft.split()
        jobs = list(self._world.state.jobs.values())
        found = [job.id for job in jobs if _WHERE[where](job)] or [job.id for job in jobs] or [MISSING]
        return MISSING if where == "nowhere" else found[int(number) % len(found)]

    def _run(self, draft: c.FileRun) -> c.FileRun:
        job = self._world.state.jobs.get(job_id := self._job(draft.job_id))
        if draft.attempts is None:
            return c.FileRun(job_id, max(0, (draft.epoch or 0) + (job.epoch if job else 1)))
        return c.FileRun(job_id, attempts=max(0, draft.attempts + (job.attempts if job else 1)))

    def _file(self, draft: str) -> str:
        return self._one_of(self._world.state.of(File), draft)

    def _reservation(self, draft: str) -> str:
        return self._one_of(self._world.state.reservations, draft)

    def _one_of(self, rows: Iterable[str], draft: str) -> str:
        found = list(rows)[::-1]
        return found[int(draft) % len(found)] if found and draft != "9" else MISSING


_WHERE: dict[str, Callable[[Job], bool]] = {
    "any": lambda job: True,
    "nowhere": lambda job: False,
    "active": lambda job: job.place is not None,
    "held": lambda job: isinstance(job.place, Leased | Awaiting),
    "away": lambda job: isinstance(job.place, Awaiting),
    "dead": lambda job: job.dead_at is not None,
    "ended": lambda job: job.place is None,
    "done": lambda job: job.status == "completed",
}


def _found(*where: str) -> SearchStrategy[str]:
    """A job, looked for in one of these places."""
    return st.tuples(st.sampled_from(where), st.integers(0, 7)).map(lambda drawn: f"{drawn[0]} {drawn[1]}")


def _pick(*values: T) -> SearchStrategy[T]:
    return st.sampled_from(values)


def _make(command: Callable[..., c.Command], /, **fields: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.fixed_dictionaries(fields).map(lambda drawn: command(**drawn))


_CLOCK_STEPS = _pick(
    *(0, 1, SECOND, 10 * SECOND, 31 * SECOND, 61 * SECOND, 61 * SECOND, 300 * SECOND, 601 * SECOND),
    *(HOUR, 25 * HOUR, -10 * SECOND, -2 * HOUR),
)
_ACTORS = st.sampled_from([None] * 8 + ["boss"])
_HELD = _found(*["held"] * 10, "any", "nowhere")
_ACTIVE = _found(*["active"] * 6, *["held"] * 4, "any", "nowhere")
_DEAD = _found(*["dead"] * 6, "any", "nowhere")
_EPOCHS = _pick(0, 0, 0, 0, 0, -1, 1)
_ACCOUNTS = _pick(*["ana"] * 6, *["bob"] * 6, *["eva"] * 2, "nobody")
_OWNERS = _pick(None, None, None, None, "ana", "bob")
_PLANS = _pick(*POLICY.plans, "unknown")
_POOLS = _pick("gpu", "gpu", "gpu", "cpu", "net")
_POOL_SETS = _pick(*[("gpu",)] * 3, *[("gpu", "cpu", "net")] * 3, ("net", "gpu"), ("cpu",), ("gpu", "unknown"))
_SHORT_KEYS = _pick(None, "k1", "k1", "k2", "k3")
_TTLS_MS = _pick(None, 0, 10_000, 7_200_000, 86_400_000)
_RESERVATIONS = _pick("0", "0", "0", "1", "2", "9")
_AMOUNTS = _pick(5, 20, 20, 30, -3, -50, 0, 10**12 + 1)

_NEW_JOBS = st.fixed_dictionaries(
    {
        "tool": _pick("image", "image", "video"),
        "pool": _POOLS,
        "cost": _pick(1, 2, 3, 4, 1, 2, 3, 4, 0, 9, 40, -1),
        "units": _pick(1, 4),
        "priority": _pick(0, 0, 10, -5),
        "timeout_ms": _pick(600_000, 30_000, 172_800_000),
        "max_wait_ms": _pick(None, None, 60_000),
        "max_attempts": _pick(1, 2, 3),
        "content_hash": _pick(None, None, "c1", "c1", "c2", "c2"),
        "provider": _pick(None, None, None, "fal"),
        "session": _pick(None, None, "s1"),
        "files": _pick(*[()] * 6, ("0",), ("0", "1"), ("0", "0"), ("9",)),
    }
).map(lambda drawn: new_job("", payload='{"n": 1}', **drawn))

_SUBMITS = _make(
    c.Submit,
    account_id=_ACCOUNTS,
    jobs=st.one_of(st.tuples(_NEW_JOBS), st.lists(_NEW_JOBS, min_size=2, max_size=4).map(tuple)),
    key=_SHORT_KEYS,
    fingerprint=_pick("same", "same", "same", "other"),
    key_ttl_ms=_TTLS_MS,
    reservation_id=_pick(*[None] * 7, "0", "1", "9"),
    delay_ms=_pick(0, 0, 0, 10_000, 3_600_000),
    as_far_as_credits=_pick(False, False, True),
    counts_parts=_pick(False, False, True),
)
_JOINS = _make(
    c.Submit,
    account_id=_ACCOUNTS,
    jobs=st.one_of(st.tuples(_NEW_JOBS), st.lists(_NEW_JOBS, min_size=2, max_size=3).map(tuple)),
    key=_SHORT_KEYS,
    fingerprint=_pick("same"),
    batch_id=_pick("0", "0", "0", "1", "2", "9"),
    joins=_pick(True),
)
_ENDINGS = _pick(
    *[c.Completed('"done"')] * 3,
    c.Completed('"part"', delivered=3, of=4, provider_cost=25_000),
    c.Failed("it cost something", provider_cost=10_000),
    c.Completed('"none"', delivered=0),
    c.Completed('"odd"', delivered=-1, of=0),
    *[c.Failed("it broke")] * 3,
    c.Failed("never", final=True),
    c.Failed("too small", for_user=True, traceback="line 1"),
    c.RetryLater(10_000, "busy"),
    c.RetryLater(10_000, "busy", unsent=True),
    c.CancelledByHandler("not wanted"),
    c.AcceptedByProvider("ref-1"),
    c.AcceptedByProvider("ref-2"),
    c.AcceptedByProvider("ref-1", poll_ms=10_000),
    c.AcceptedByProvider("ref-1", poll_ms=31_000),
    c.Interrupted("the worker stops"),
    c.Interrupted("its process died", lost=True),
    c.TimedOut(),
)
_CLAIMS = _make(
    c.Claim, worker=_pick("w1", "w2"), pools=_POOL_SETS, limit=_pick(1, 2, 4), starts=_pick(False, False, True)
)
_CLAIMS_BY_ID = _make(
    c.ClaimJob, worker=_pick("w1", "w2"), pool=_pick("", "", "net"), job_id=_ACTIVE, starts=_pick(False, True)
)
_HEARTBEATS = _make(c.Heartbeat, job_id=_HELD, epoch=_EPOCHS, starts=_pick(False, True))
_CHECKPOINTS = _make(
    c.SaveCheckpoint,
    job_id=_HELD,
    epoch=_EPOCHS,
    name=_pick("HALF", "NEARLY", "AWAY"),
    progress=_pick(50, 90),
    declared=_pick(
        None,
        Checkpoints({"HALF": ("NEARLY",), "NEARLY": ()}, first=("HALF",)),
        Checkpoints({"HALF": ("NEARLY", "AWAY"), "NEARLY": (), "AWAY": ("HALF",)}, first=("HALF",)),
    ),
)
_STEPS = _make(c.SaveStep, job_id=_HELD, epoch=_EPOCHS, name=_pick("fetch", "paint"), result_json=_pick('"x"', '"y"'))
_REPORTS = _make(
    c.Report, job_id=_HELD, epoch=_EPOCHS, progress=_pick(None, 10, 90), partial_json=_pick(None, "[1]", "[1, 2]")
)
_NOTES = _make(c.Note, job_id=_HELD, epoch=_EPOCHS, line=_pick("so far so good"))
_STARTS = _make(c.NoteStart, job_id=_HELD, epoch=_EPOCHS, provider=_pick("acme"), target=_pick("painter"))
_FINISHES = _make(c.Finish, job_id=_HELD, ending=_ENDINGS, epoch=_EPOCHS, jitter=_pick(0.0, 0.25, 0.999))
_CALL_BACKS = _make(c.Finish, job_id=_found("away", "held", "any"), ending=_ENDINGS, attempt=_pick(None, None, 0, 0, 1))
_POLLS = st.one_of(
    _make(
        c.NoteCallback,
        job_id=_found("away", "away", "held", "any", "ended", "nowhere"),
        attempt=_pick(0, 0, 0, 1),
        verdict=_pick("verified", "unsigned", "forged"),
        ref=_pick(None, "ref-1"),
        told=_pick(None, '{"type": "working"}'),
        ends=_pick(False, False, True),
    ),
    _make(c.HoldPoll, job_id=_found("away", "away", "any"), hold_ms=_pick(0, 30_000), held_at=_pick(None, None, 0)),
    _make(
        c.EndPoll,
        job_id=_found("away", "away", "any"),
        held_at=st.just(0),
        poll_ms=_pick(10_000),
        progress=_pick(None, 7),
    ),
)
_CANCELS = _make(
    c.CancelJob,
    job_id=_ACTIVE,
    account_id=_OWNERS,
    reason=_pick(None, "enough"),
    parts=_pick((), (), ("any 0",)),
)
_RECOVERIES = _make(c.Recover, job_id=_ACTIVE)
_REQUEUES = _make(c.Requeue, job_id=_DEAD, new_id=st.just(""))
_RESUBMITS = _make(
    c.Resubmit,
    account_id=_ACCOUNTS,
    job_id=_DEAD,
    new_id=st.just(""),
    tools=_pick(
        {"image": c.ToolTerms(), "video": c.ToolTerms(10, tuple(POLICY.plans)[:1])},
        {"image": c.ToolTerms(5, provider="fal")},
    ),
)
_REFUNDS = _make(
    c.RefundJob,
    job_id=_found(*["done"] * 6, "ended", "any", "nowhere"),
    reason=_pick("a gift"),
    amount=_pick(None, None, 1, 3),
    share=_pick(None, None, "0.5", "0.001", "1"),
)
_DISCARDS = _make(c.Discard, job_id=_DEAD)
_RESERVES = _make(
    c.Reserve,
    reservation_id=st.just(""),
    account_id=_ACCOUNTS,
    ttl_ms=_TTLS_MS,
    counts_parts=_pick(False, True),
)
_RESERVATION_ENDS = st.one_of(
    _make(c.EndReservation, reservation_id=_RESERVATIONS, state=_pick("consumed", "released"), account_id=_OWNERS),
    _make(c.ExpireReservation, reservation_id=_RESERVATIONS),
)
_CREDITS = _make(
    c.Credit, account_id=_ACCOUNTS, amount=_AMOUNTS, kind=_pick("grant", "grant", "adjust"), key=_SHORT_KEYS
)
_CHANGES_OF_PLAN = _make(c.ChangePlan, account_id=_ACCOUNTS, plan=_PLANS)
_RECOUNTS = _make(c.RecountAccount, account_id=_ACCOUNTS)
_OPENS = _make(c.OpenAccount, account_id=_pick("ana", "zoe"), plan=_PLANS, credits=_AMOUNTS)
_FORGETS = _make(c.ForgetKey, account_id=_ACCOUNTS, scope=_pick("submit", "grant"), key=_pick("k1", "k2", "k3"))
_PAUSES = _make(c.PausePool, name=_POOLS, paused=_pick(False, False, True))
_BRAKES = st.one_of(
    _make(c.PauseTool, tool=_pick("image", "video"), pools=st.just(tuple(POOLS)), paused=_pick(False, False, True)),
    _make(c.SettleTool, tool=_pick("image", "video"), since_at=_pick(0), paused=_pick(False, True)),
    *(
        _make(c.CloseSubmits, kind=st.just(kind), name=_pick(*names, "nothing"), reason=_pick(None, None, None, "Bad."))
        for kind, names in (("tool", ("image", "video")), ("pool", tuple(POOLS)))
    ),
    *[_make(c.HoldBack, job_id=_found(*["active"] * 6, "any", "nowhere"), pool=st.just(""))] * 3,
)
_RESIZES = st.one_of(
    _make(c.ResizePool, name=_POOLS, resized=_pick(None, 0, 1, 3, -1)),
    _make(c.DeclarePool, name=_POOLS, slots=_pick(None, 1, 2, 3)),
)
_WORDS = _make(
    c.RegisterWorker,
    name=_pick("w1", "w9"),
    host=_pick("here"),
    pid=_pick(7, 8),
    pools=_POOL_SETS,
    concurrency=_pick(1, 20),
    version=_pick("1.0"),
    heartbeat_ms=_pick(10_000),
    started_at=_pick(None, START_AT),
    stops=_pick(False, False, True),
    problem=_pick(None, "no device"),
)
_ENDED = _found(*["ended"] * 8, "any", "nowhere")
_REMOVALS = _make(c.RemoveWork, account_id=_pick("", "", "", "bob"), job_id=_found(*["done"] * 8, "any", "nowhere"))
_OLD_JOBS = st.lists(_make(c.OldJob, id=_ENDED), min_size=1, max_size=3).map(tuple)
_PRUNES = st.one_of(
    *[
        _make(
            c.PruneJobs,
            account_id=_pick(*[""] * 8, "bob", "nobody"),
            jobs=_OLD_JOBS,
            submitted=_pick(0, 0, 0, 0, 1),
        )
    ]
    * 6,
    _make(c.MoveRetention, rules=_pick("r1", "r2"), turn=_pick(0, 0, 1, 2), walks=_pick({}, {"1": MISSING})),
    _make(c.CloseAccount, account_id=_pick("ana", "bob", "eva", "nobody")),
    _make(c.EraseRows, account_id=_pick("ana", "bob", "eva"), entries=_pick((), (1,), (1, 2))),
)
_HOOKS = st.one_of(
    _make(c.NoteConfiguration, subjects=_pick({}, {"tool image": {"price": "5"}}, {"tool image": {"price": "6"}})),
    _make(
        c.DeclareHook,
        name=_pick("told", "elsewhere"),
        ends=_pick(("completed",), ("cancelled", "failed")),
        tools=_pick(None, ("image",)),
        runs=_pick(False, True),
        starts=_pick(False, True),
    ),
    _make(c.ForgetHook, name=_pick("told", "elsewhere", "unknown"), by_age=_pick(False, True)),
    _make(
        c.HoldHook,
        name=_pick("told", "told", "paid back", TELL_PROVIDER, "unknown"),
        job_id=_ENDED,
        hold_ms=_pick(0, 1, 70_000),
    ),
    _make(
        c.EndHook,
        name=_pick("told", "told", "paid back", "unknown"),
        job_id=_ENDED,
        attempt=_pick(0, 1, 1, 1, 2),
        error=_pick(None, "it broke"),
    ),
)
_API_KEYS = st.one_of(
    _make(
        c.CreateApiKey,
        key_id=st.just(""),
        name=_pick("ci", "ci", "web"),
        hint=_pick("hint"),
        digest=st.just(""),
        scope=_pick("admin", "service", "user", "viewer"),
        account_id=_pick(None, None, "ana", "nobody"),
        ttl_ms=_pick(None, 10_000, 7_200_000),
    ),
    _make(c.RevokeApiKey, key_id=_RESERVATIONS),
    _make(c.UseApiKey, key_id=_RESERVATIONS),
)
_SIZES = _pick(0, 5, 10, 10, 20, 40, 41)
_FILES = st.one_of(
    _make(
        c.BeginFile,
        file_id=_pick("", "", "", "", "0"),
        account_id=_pick("ana", "ana", "bob", "nobody"),
        name=_pick("cat.png"),
        least=_SIZES,
        most=_pick(None, 20, 40, 50),
        reservation_id=_pick(None, None, None, "0", "9"),
    ),
    _make(
        c.BeginFile,
        file_id=_pick("", "", "0"),
        account_id=_pick("ana"),
        name=_pick("out.png"),
        most=_pick(None, 20),
        run=st.one_of(
            _make(c.FileRun, job_id=_HELD, epoch=_EPOCHS),
            _make(c.FileRun, job_id=_found("away", "held", "any"), attempts=_pick(0, 0, 0, -1)),
        ),
    ),
    *[
        _make(
            c.StoreFile,
            file_id=_RESERVATIONS,
            account_id=_pick("", "", "", "bob"),
            size=_SIZES,
            media_type=_pick("image/png"),
            digest=_pick("digest"),
        )
    ]
    * 2,
    _make(c.RemoveFile, file_id=_RESERVATIONS, account_id=_pick("", "", "", "bob"), aborts=_pick(False, False, True)),
    _make(c.ExpireFile, file_id=_RESERVATIONS, account_id=_pick("")),
    _make(c.ForgetFile, file_id=_RESERVATIONS),
)
_ELECTIONS = _make(c.Elect, name=_pick("sweeper"), owner=_pick("n1", "n2"), ttl_ms=_pick(0, 30_000))

_FIGURES = st.one_of(
    _make(
        c.FoldFigures,
        turn=_pick(0, 0, 1, 1, 2),
        number=_pick(10),
        folded_at=_pick(START_AT),
        figures=_pick((), ((START_AT, Figures((JobCounts("tight", "quick", "gpu", 1),), {3: 1}, charged=2)),)),
    ),
    _make(c.CorrectQueue, turn=_pick(0, 1), at=_pick(START_AT), waiting=_pick((), (QueueCount("a", "b", "c", 1, 0),))),
    _make(c.NoteVerification, violations=_pick(0, 2)),
    _make(c.ForgetRollups, keys=_pick((rollup_key("minute", START_AT), rollup_key("hour", START_AT), TOTAL))),
)

_TURN_TERMS = _pick(
    TurnTerms(interval_us=SECOND, at_once=2, failures=2, open_ms=10_000, open_max_ms=30_000, longest_wait_ms=2_000),
    TurnTerms(interval_us=20 * SECOND, burst=3, failures=1),
    TurnTerms(at_once=1, hold_ms=5_000, failures=0),
)
_TURN_IDS = _pick("t1", "t2", "t3", "t4")
_PROVIDERS = _pick("fal", "fal", "own")
_TURNS = st.one_of(
    _make(c.TakeTurn, provider=_PROVIDERS, turn_id=_TURN_IDS, terms=_TURN_TERMS),
    _make(
        c.EndTurn,
        provider=_PROVIDERS,
        turn_id=_TURN_IDS,
        terms=_TURN_TERMS,
        is_fault=_pick(True, True, False, None),
        error=_pick(None, "502"),
        took_ms=_pick(None, 0, 250, 90_000_000),
    ),
    _make(c.OpenBreaker, provider=_PROVIDERS, open_ms=_pick(0, 1, 60_000), is_declared=_pick(False, True)),
    _make(c.CloseBreaker, provider=_PROVIDERS, is_declared=_pick(False, True)),
)

_ENDPOINT_OWNERS = _pick("ana", "ana", "bob", "", "nobody")
_DELIVERIES = _pick("0", "0", "1", "2", "3", "9")
_WEBHOOKS = st.one_of(
    _make(
        c.AddEndpoint,
        owner=_ENDPOINT_OWNERS,
        endpoint_id=st.just(""),
        url=_pick("https://hooks.example/"),
        secret=_pick("s1"),
        events=_pick((), (), ("job.failed", "credits.low")),
    ),
    _make(
        c.ChangeEndpoint,
        owner=_ENDPOINT_OWNERS,
        endpoint_id=_pick("0", "1", "9"),
        to=_pick("removed", "enabled", "enabled"),
    ),
    _make(
        c.RotateSecret,
        owner=_ENDPOINT_OWNERS,
        endpoint_id=_pick("0", "1"),
        secret=_pick("s2", "s3"),
        overlap_ms=_pick(0, 60_000),
    ),
    _make(
        c.PingEndpoint,
        owner=_ENDPOINT_OWNERS,
        endpoint_id=_pick("0", "1"),
        delivery_id=st.just(""),
        body=_pick('{"n": 1}'),
    ),
)
_MESSAGES = st.one_of(
    _make(c.HoldHook, name=_pick(JOB_ENDED_HOOK, CREDITS_LOW_HOOK), job_id=_found("any"), hold_ms=_pick(0, 70_000)),
    _make(
        c.MakeDeliveries,
        hook=_pick(JOB_ENDED_HOOK, CREDITS_LOW_HOOK),
        job_id=_DELIVERIES,
        account_id=st.just(""),
        attempt=_pick(0, 0, 0, 1),
        event=_pick("job.failed", "job.completed"),
        body=_pick('{"n": 2}'),
        deliveries=st.just(()),
    ),
    _make(c.HoldDelivery, delivery_id=_DELIVERIES, owner=_pick("its", "its", "bob"), hold_ms=_pick(0, 70_000)),
    _make(
        c.EndDelivery,
        delivery_id=_DELIVERIES,
        owner=_pick("its", "its", None),
        attempt=_pick(0, 0, 0, 1),
        status=_pick(200, 500, None, 410),
        error=_pick(None, "no"),
        jitter=_pick(0.0, 0.5),
    ),
    _make(c.ResendDelivery, delivery_id=_DELIVERIES, owner=_pick("its", "its", "bob")),
    _make(c.ForgetDelivery, delivery_id=_DELIVERIES),
)

_SESSIONS = st.one_of(
    _make(c.HearSession, account_id=_ACCOUNTS, session=_pick("s1", "s2")),
    _make(c.ChangeSession, account_id=_ACCOUNTS, session=_pick("s1", "s1", "s2", "s3"), to=_pick("open", "left")),
    _make(
        c.EndSession,
        account_id=_ACCOUNTS,
        session=_pick("s1", "s1", "s2"),
        jobs=_pick((), (), ("any 0", "nowhere 0")),
        more=_pick(False, False, True),
    ),
)

_ANY_JOB = _found("dead", "active", "done", "any", "nowhere")
_BULK_ACTS = st.one_of(
    _make(
        c.BeginBulkAct,
        act_id=st.just(""),
        act=_pick("requeue", "requeue", "discard", "cancel", "refund"),
        search=_pick("dead:yes"),
        reason=_pick("a test"),
        actor=_pick("boss"),
        total=_pick(3, 3, 3, 100_001),
        credits=_pick(7),
        before_id=st.just(""),
        amount=_pick(None, None, 2),
        share=_pick(None, None, "0.3"),
    ),
    _make(c.HoldBulkAct, act_id=_pick("0", "0", "1", "9"), hold_ms=_pick(0, 30_000)),
    *[
        _make(
            c.AdvanceBulkAct,
            act_id=_pick("0", "0", "0", "1", "9"),
            hold=_pick(0, 0, 0, -1),
            hold_ms=_pick(0, 30_000),
            from_id=st.just(""),
            jobs=st.lists(
                st.tuples(_found("dead", "active", "done", "any", "nowhere"), st.none()), min_size=1, max_size=3
            ),
            before_id=_pick(None, "more"),
            broken=_pick(None, None, (MISSING, "broken")),
        )
    ]
    * 2,
    *[_make(c.StopBulkAct, act_id=_pick("0", "0", "1", "9"))] * 2,
)

_NAMED_SCHEDULES = _pick("daily", "daily", "nightly")
_SCHEDULES = st.one_of(
    _make(
        c.DeclareSchedule,
        name=_NAMED_SCHEDULES,
        cron=_pick("* * * * *", "* * * * *", "0 9 * * *"),
        tz=_pick("UTC"),
        tool=_pick("quick"),
        payer=_pick(None, "ana"),
    ),
    _make(c.PauseSchedule, schedule=_NAMED_SCHEDULES, paused=_pick(False, False, True)),
    *[
        _make(
            c.FireSchedule,
            name=_NAMED_SCHEDULES,
            cron=_pick("* * * * *"),
            tz=_pick("UTC"),
            from_at=_pick(0, 0, 0, 1),
            slot_at=_pick(1, 1, 60 * SECOND),
            account_id=_pick("ana", "ana", "nobody", FREE),
            submit=_pick(None, True, True, True),
            passed=_pick(0, 0, 2),
            code=_pick(None, "INVALID_PAYLOAD"),
            message=_pick(None, "it does not fit"),
        )
    ]
    * 3,
    _make(c.RunSchedule, schedule=_NAMED_SCHEDULES, account_id=_pick("ana", "bob", FREE), submit=_pick(True)),
)

_KINDS: list[SearchStrategy[Any]] = [
    *[_CLAIMS] * 9,
    *[_SUBMITS] * 7,
    *[_FINISHES] * 7,
    *[_RECOVERIES] * 6,
    *[_CALL_BACKS] * 2,
    *[_POLLS] * 3,
    *[_CANCELS] * 2,
    *[_CLAIMS_BY_ID] * 2,
    *[_REQUEUES] * 2,
    *[_RESUBMITS] * 2,
    *[_CREDITS] * 2,
    *[_RESERVES] * 2,
    *[_RESERVATION_ENDS] * 2,
    _CHANGES_OF_PLAN,
    _RECOUNTS,
    *(_HEARTBEATS, _HEARTBEATS, _CHECKPOINTS, _STEPS, _REPORTS, _NOTES, _STARTS),
    *(_DISCARDS, _REFUNDS, _OPENS, _FORGETS, _PAUSES, _BRAKES, _RESIZES, _ELECTIONS, _WORDS),
    *(_JOINS, _API_KEYS, _API_KEYS, _HOOKS, _HOOKS, _HOOKS),
    *[_TURNS] * 4,
    *[_FILES] * 4,
    *[_REMOVALS] * 2,
    *[_WEBHOOKS] * 2,
    *[_MESSAGES] * 4,
    *[_SESSIONS] * 2,
    _FIGURES,
    *[_BULK_ACTS] * 4,
    *[_SCHEDULES] * 3,
]
"""Each kind of command as often as it makes for an eventful workload."""
