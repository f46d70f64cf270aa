"""Every command there is, in the commit groups that come of it, on a crowded database; and every question.

A sample runs each kind of commit group with rows that nobody has touched yet, and again with the rows that the first
one left, since a store may take another path for cached rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.figures import rollup_key
from ficha.core.needs import needs
from ficha.core.policy import JOB_ENDED_HOOK, TurnTerms
from ficha.core.records import Figures, QueueCount, Status
from ficha.store import base as q
from tests.stores.million_rows import ENDPOINT, WHALE, Population, Run, account_of, submit, uuid_of
from tests.support.new_jobs import new_job

MANY: Final = 40
"""Commands in a commit group."""


def asked(group: tuple[c.Command, ...]) -> int:
    """How much a commit group asks for: what its work may be a small multiple of."""
    return sum(map(_asked, group))


def _asked(command: c.Command) -> int:
    match c.unwrapped(command):
        case c.Submit(jobs=jobs) | c.AdvanceBulkAct(jobs=jobs) | c.PruneJobs(jobs=jobs):
            return len(jobs)
        case c.Claim(pools=pools, limit=limit):
            # Where slots are counted, as many as are busy.
            return limit * len(pools) + (10 if "tight" in pools else 0)
        case c.FoldFigures(figures=figures):
            return 1 + 2 * len(figures)
        case c.ForgetRollups(keys=keys):
            return len(keys)
        case c.ChangePlan() | c.RecountAccount():
            # All that the account has parked may have room now.
            return 1 + 20
        case _:
            return 1


def _new(count: int = MANY) -> list[str]:
    return [str(uuid4()) for _ in range(count)]


async def submits(run: Run, population: Population) -> None:
    names = population.names(MANY)
    for _ in range(2):
        group = [submit(name, new, key=new) for name, new in zip(names, _new(), strict=True)]
        await run(*group)
    await run(*group)
    await run(*(submit(name, new, key="mine") for name, new in zip(population.names(1) * MANY, _new(), strict=True)))
    await run(*(submit(WHALE, new, key=new) for new in _new()))


async def submits_of_all_sorts(run: Run, population: Population) -> None:
    names, other = population.names(MANY), _new()
    known = [submit(names[n], other[n], content=f"hash-{1_000_000 + n}") for n in range(10)]
    fresh = [submit(names[n], other[n], content=other[n]) for n in range(10, 15)]
    later = [submit(names[n], other[n], delay_ms=5_000) for n in range(15, 20)]
    held = zip(population.numbers("held", 10), other[20:30], strict=True)
    reserved = [submit(account_of(n), new, reservation_id=uuid_of("held", n)) for n, new in held]
    await run(*known, *fresh, *later, *reserved)
    jobs = tuple(new_job(new, "draw", "gpu", "{}", 1) for new in _new())
    await run(c.Submit(names[30], jobs, batch_id=other[30]))


async def submits_alone(run: Run, population: Population) -> None:
    """What can also take part in a transaction of the caller's own."""
    [name] = population.names(1)
    jobs = tuple(new_job(new, "draw", "gpu", "{}", 1) for new in _new())
    for _ in range(2):
        await run(submit(name, *_new(1), key="alone"))
    await run(submit(WHALE, *_new(1), key="alone"))
    await run(submit(name, *_new(1), content=f"hash-{1_000_000 + 50}"))
    [held] = population.numbers("held", 1)
    await run(submit(account_of(held), *_new(1), delay_ms=5_000, reservation_id=uuid_of("held", held)))
    await run(c.Submit(name, jobs, batch_id=str(uuid4())))


async def claims(run: Run, population: Population) -> None:
    await run(c.Claim("w", ("gpu",), MANY))
    await run(c.Claim("w", ("gpu", "tight"), 5), c.Claim("x", ("tight",), 1))
    await run(c.Claim("w", ("gpu",), 1))
    await run(c.Claim("w", ("gpu",), 5))


async def claims_by_id(run: Run, population: Population) -> None:
    names, jobs = _new(5), _new(5)
    await run(*(c.OpenAccount(name, "pro", 10) for name in names))
    await run(*map(submit, names, jobs))
    await run(*(c.ClaimJob("w", "gpu", job_id) for job_id in jobs))


async def lives(run: Run, population: Population) -> None:
    """From a claim to the end, by one process, each act in a commit group of its own."""
    [claimed] = await run(c.Claim("w", ("gpu",), MANY))
    held = [(lease.job.id, lease.epoch) for lease in claimed.leases]
    await run(*(c.Heartbeat(*lease, starts=True) for lease in held))
    await run(*(c.Heartbeat(*lease) for lease in held))
    await run(*(c.SaveCheckpoint(*lease, "here") for lease in held))
    await run(*(c.Report(*lease, 50, "[1]") for lease in held), *(c.Note(*lease, "so far") for lease in held))
    await run(*(c.NoteStart(*lease, "acme", "painter") for lease in held))
    await run(*(c.Finish(job_id, c.Completed("{}"), epoch) for job_id, epoch in held))
    await run(submit(population.names(1)[0], *_new(1)))


ENDINGS: Final = (
    c.Completed("{}"),
    c.Completed("{}", 1, 2),
    c.Failed("no"),
    c.Failed("no", final=True),
    c.Failed("no", for_user=True, traceback="line 1"),
    c.RetryLater(1_000),
    c.CancelledByHandler("no"),
    c.AcceptedByProvider("ref"),
)


async def leases(run: Run, population: Population) -> None:
    """What workers of other processes hold, whose accounts have more that waits."""
    held = population.take("leased", MANY)
    await run(*(c.Heartbeat(job_id, 1) for job_id in held))
    await run(
        *(c.Heartbeat(job_id, 1) for job_id in held[:10]),
        *(c.SaveCheckpoint(job_id, 1, "here", 70, "{}") for job_id in held[10:20]),
        *(c.SaveStep(job_id, 1, name, "1") for job_id in held[20:30] for name in ("step", "new")),
        c.Claim("w", ("gpu",), 10),
    )
    await run(*(c.Finish(job_id, ENDINGS[n % len(ENDINGS)], 1) for n, job_id in enumerate(held)))
    await run(*(c.Finish(job_id, c.Completed("{}")) for job_id in population.take("awaiting", 3)))
    await run(c.Finish(*population.take("leased", 1), c.Completed("{}"), 1))


async def a_whale_at_its_limit(run: Run, population: Population) -> None:
    mine = population.take("whaled", 45)
    await run(*(c.Finish(job_id, c.Completed("{}"), 1) for job_id in mine[:MANY]))
    await run(*(c.CancelJob(job_id) for job_id in (*population.take("whale", 20), *mine[MANY:])))


async def cancels(run: Run, population: Population) -> None:
    await run(
        *(
            c.CancelJob(job_id)
            for kind in ("ready", "parked", "later", "leased")
            for job_id in population.take(kind, 10)
        )
    )


async def reservations(run: Run, population: Population) -> None:
    names, new = population.names(MANY), _new()
    await run(*(c.Reserve(held, name) for held, name in zip(new, names, strict=True)))
    await run(
        *(c.EndReservation(held, "consumed") for held in new[:20]),
        *(c.EndReservation(held, "released") for held in new[20:]),
    )


async def sweeps(run: Run, population: Population) -> None:
    late = [
        *population.take("lapsed", 10),
        *population.take("due", 10),
        *population.take("ready", 10),
        *population.take("parked", 10),
    ]
    await run(*map(c.Recover, late))
    await run(
        *map(c.ExpireReservation, population.take("expired", 20)),
        *(c.ForgetKey(account_of(n), "submit", f"key-{100 * n + 1}") for n in range(20)),
    )


async def dead_letters(run: Run, population: Population) -> None:
    numbers = population.numbers("dead", MANY)
    dead = [uuid_of("dead", number) for number in numbers]
    await run(*map(c.Requeue, dead[:10], _new(10)), *map(c.Discard, dead[20:]))
    owners, tools = map(account_of, numbers[10:20]), {"draw": c.ToolTerms()}
    await run(*(c.Resubmit(*names, tools) for names in zip(owners, dead[10:20], _new(10), strict=True)))


async def accounts(run: Run, population: Population) -> None:
    new = _new()
    await run(*(c.OpenAccount(name, "pro", 10) for name in new))
    for _ in range(2):
        await run(*(c.Credit(name, 1, "grant", key="one") for name in new))
    await run(c.ChangePlan(account_of(60), "pro"))


async def pools(run: Run, population: Population) -> None:
    await run(c.DeclarePool("other", 5), c.Elect("sweeping", "w", 1_000))
    await run(c.PausePool("other"), c.ResizePool("other", 3), c.Elect("sweeping", "w", 1_000))


async def brakes(run: Run, population: Population) -> None:
    """A tool that no job has: the jobs of the others stay where they are."""
    [(paused, job)] = [("other tool", uuid_of("ready", 90))]
    await run(c.PauseTool(paused, ("gpu", "other")), c.CloseSubmits("tool", paused, "Broken."))
    await run(c.SettleTool(paused, 0, True), c.HoldBack(job, "gpu"))
    await run(c.PauseTool(paused, ("gpu", "other"), paused=False), c.CloseSubmits("tool", paused, None))


async def workers(run: Run, population: Population) -> None:
    for _ in range(2):
        await run(*(c.RegisterWorker(f"w{n}", "host", n, ("gpu",), 10, "1.0", 10_000) for n in range(MANY)))


async def api_keys(run: Run, population: Population) -> None:
    names, new = _new(), _new()
    await run(*(c.OpenAccount(name, "pro") for name in names))
    await run(
        *(c.CreateApiKey(key, key, "hint", key, "user", name) for key, name in zip(new, names, strict=True)),
        *(c.CreateApiKey(key, key, "hint", key, "admin") for key in _new(5)),
    )
    for _ in range(2):
        await run(*map(c.UseApiKey, (*new, *population.take("api", MANY))))
    await run(*map(c.RevokeApiKey, (*new[:20], *population.take("api", 20))))
    await run(c.RevokeApiKey(new[20]))


async def acts_in_a_name(run: Run, population: Population) -> None:
    """What administrators do, on rows that are remembered and on those that are not; and joined batches."""
    names = _new()
    await run(*(c.ActingAs("boss", c.OpenAccount(name, "pro", 100)) for name in names))
    for _ in range(2):
        await run(*(c.ActingAs("boss", c.Credit(name, 1, "grant")) for name in names))
        await run(*(c.ActingAs("boss", submit(name, new)) for name, new in zip(names, _new(), strict=True)))
    await run(*(c.ActingAs("boss", c.CancelJob(job_id)) for job_id in population.take("ready", 10)))
    numbers = range(10)
    joined = [(account_of(number % population.accounts), uuid_of("batch", number)) for number in numbers]
    await run(*(submit(name, *_new(1), batch_id=batch, joins=True) for name, batch in joined))


async def hooks(run: Run, population: Population) -> None:
    await run(c.DeclareHook("new", ("completed",), ("draw",), starts=True), c.DeclareHook("new", (), None, runs=True))
    await run(c.ForgetHook("new", by_age=True), c.ForgetHook("unknown"))
    await run(*(c.NoteConfiguration({"tool é": {"price": price}}) for price in ("5", "6", "5")))
    ended = population.take("leased", 20)
    await run(*(c.Finish(job_id, c.Completed("{}"), 1) for job_id in ended))
    await run(*(c.HoldHook("tell", job_id, 60_000) for job_id in ended))
    await run(*(c.EndHook("tell", job_id, 1, "no answer") for job_id in ended[:10]))
    await run(*(c.EndHook("tell", job_id, 1) for job_id in ended[10:]))


async def polls(run: Run, population: Population) -> None:
    away = population.take("awaiting", 2)
    await run(*(c.NoteCallback(job_id, 0, "unsigned", body="{}") for job_id in away))
    await run(*(c.HoldPoll(job_id, 30_000) for job_id in away))
    await run(*(c.EndPoll(job_id, 1, 30_000) for job_id in away))
    await run(*(c.Finish(job_id, c.Completed("{}"), attempt=0) for job_id in away))
    await run(*(c.NoteCallback(job_id, 0, "unsigned", body="{}") for job_id in away))


async def removals(run: Run, population: Population) -> None:
    works = [(account_of(number), uuid_of("leased", number)) for number in population.numbers("leased", 20)]
    await run(*(c.Finish(job_id, c.Completed("{}"), 1) for _, job_id in works))
    await run(*(c.RemoveWork(name, job_id, (str(uuid4()),)) for name, job_id in works[1:]))
    await run(c.RemoveWork(*works[0]))


async def prunes(run: Run, population: Population) -> None:
    """Jobs that leave, of many accounts and of one, and an account that is erased."""
    works = [(account_of(number), uuid_of("leased", number)) for number in population.numbers("leased", 20)]
    await run(*(c.Finish(job_id, c.Completed("{}"), 1) for _, job_id in works))
    await run(*(c.CloseAccount(name) for name, _ in works))
    old = [(name, c.OldJob(job_id, (str(uuid4()),), (str(uuid4()),), ("draw", job_id))) for name, job_id in works]
    await run(*(c.PruneJobs(name, (job,), (str(uuid4()),), 10**6) for name, job in old))
    pruned = await run(*(c.PruneJobs(name, (job,)) for name, job in old[1:]))
    assert all(outcome.removals for outcome in pruned)
    await run(c.PruneJobs(old[0][0], (old[0][1],)))
    await run(c.MoveRetention("rules", 0, {"1": str(uuid4())}))
    await run(c.MoveRetention("rules", 1, {"1": str(uuid4())}))
    await run(*(c.EraseRows(name, (("submit", "k"),), (str(uuid4()),), (str(uuid4()),), (1, 2)) for name, _ in works))


async def refunds(run: Run, population: Population) -> None:
    done = population.take("leased", 20)
    await run(*(c.Finish(job_id, c.Completed("{}"), 1) for job_id in done))
    await run(*(c.RefundJob(job_id, "a gift") for job_id in done))


async def files(run: Run, population: Population) -> None:
    names, new = _new(), _new()
    uploads = [*zip(new, names, strict=True)]
    await run(*(c.OpenAccount(name, "pro", 10) for name in names))
    await run(*(c.BeginFile(*upload, "cat.png", most=10) for upload in uploads))
    await run(*(c.StoreFile(*upload, 5, "image/png", "digest") for upload in uploads[10:]))
    taking = [
        new_job(job_id, "draw", "gpu", "{}", 1, files=(file_id,)) for job_id, file_id in zip(_new(), new, strict=True)
    ]
    await run(*(c.Submit(name, (job,)) for name, job in zip(names[20:], taking[20:], strict=True)))
    await run(*(c.RemoveFile(*upload, aborts=True) for upload in uploads[:10]))
    await run(*(c.RemoveFile(*upload) for upload in uploads[10:]))
    numbers = population.numbers("file", 20)
    mine = [(uuid_of("file", number), account_of(number % population.accounts)) for number in numbers]
    stale = [(uuid_of("stale", number), account_of(number)) for number in population.numbers("stale", 20)]
    await run(*(c.RemoveFile(*file) for file in mine))
    expired = await run(*(c.ExpireFile(*file) for file in stale))
    assert all(outcome.changed for outcome in expired)
    forgotten = await run(*(c.ForgetFile(file_id) for file_id, _ in (*uploads, *mine, *stale)))
    assert all(outcome.changed for outcome in forgotten)


async def files_of_jobs(run: Run, population: Population) -> None:
    """Results of runs, and files for a submit that was reserved."""
    runs = [
        (account_of(number), c.FileRun(uuid_of("leased", number), 1)) for number in population.numbers("leased", 10)
    ]
    made = [*zip(_new(10), runs, strict=True)]
    await run(*(c.BeginFile(file_id, name, "cat.png", run=of_run) for file_id, (name, of_run) in made))
    await run(*(c.StoreFile(file_id, name, 5, "image/png", "d", of_run) for file_id, (name, of_run) in made))
    await run(*(c.ExpireFile(file_id, name, of_run.job_id) for file_id, (name, of_run) in made))
    held = [(account_of(number), uuid_of("held", number)) for number in population.numbers("held", 10)]
    await run(*(c.BeginFile(*_new(1), name, "cat.png", reservation_id=reserved) for name, reserved in held))


async def endpoints(run: Run, population: Population) -> None:
    new, known = _new(), [account_of(number) for number in population.numbers("outdated", 10)]
    await run(*(c.OpenAccount(name, "pro") for name in new))
    await run(*(c.AddEndpoint(name, ENDPOINT, "https://example.com/told", "secret") for name in new))
    for names in (known, new):
        await run(*(c.RotateSecret(name, ENDPOINT, "other", 60_000) for name in names))
        await run(*(c.PingEndpoint(name, ENDPOINT, *_new(1), "{}") for name in names))
        await run(*(c.ChangeEndpoint(name, ENDPOINT, "enabled") for name in names))
    await run(*(c.ChangeEndpoint(name, ENDPOINT, "removed") for name in new))


async def webhooks(run: Run, population: Population) -> None:
    """Messages from the job's end until they are forgotten, and some that wait since long."""
    ended = [(uuid_of("leased", number), account_of(number)) for number in population.numbers("leased", 20)]
    await run(*(c.Finish(job_id, c.Completed("{}"), 1) for job_id, _ in ended))
    await run(*(c.HoldHook(JOB_ENDED_HOOK, job_id, 60_000) for job_id, _ in ended))
    new = [(message, name) for message, (_, name) in zip(_new(20), ended, strict=True)]
    made = await run(
        *(
            c.MakeDeliveries(JOB_ENDED_HOOK, *job, 1, "job.completed", "{}", ((job[1], ENDPOINT, message),))
            for job, (message, _) in zip(ended, new, strict=True)
        )
    )
    assert all(outcome.made == 1 for outcome in made)
    owed = [(uuid_of("owed", number), account_of(number)) for number in population.numbers("owed", 20)]
    for messages in (owed, new):
        held = await run(*(c.HoldDelivery(*message, 60_000) for message in messages))
        assert all(outcome.delivery is not None for outcome in held)
        await run(*(c.EndDelivery(*message, 1, 200) for message in messages[:10]))
        await run(*(c.EndDelivery(*message, 1, error="no answer") for message in messages[10:15]))
        await run(*(c.EndDelivery(message_id, None, 1, 500) for message_id, _ in messages[15:]))
        await run(*(c.ResendDelivery(*message) for message in messages))
    forgotten = await run(*map(c.ForgetDelivery, population.take("outdated", 20)))
    assert all(outcome.changed for outcome in forgotten)


async def sessions(run: Run, population: Population) -> None:
    names, new = _new(), _new()
    await run(*(c.OpenAccount(name, "pro", 10) for name in names))
    for to in ("open", "left", "open"):
        await run(*(c.ChangeSession(name, "s1", to) for name in names))
    await run(*(c.HearSession(name, "s1") for name in names))
    jobs = [new_job(job_id, "draw", "gpu", "{}", 1, session="s1") for job_id in new]
    await run(*(c.Submit(name, (job,)) for name, job in zip(names, jobs, strict=True)))
    await run(*(c.EndSession(name, "s1", (job.id,)) for name, job in zip(names, jobs, strict=True)))
    numbers = population.numbers("visit", 20)
    over = await run(*(c.EndSession(account_of(number), "s1", (), more=number % 2 == 0) for number in numbers))
    assert all(outcome.changed for outcome in over)


async def bulk_acts(run: Run, population: Population) -> None:
    last, jobs = "ffffffff-ffff-ffff-ffff-ffffffffffff", population.take("ready", 10)
    for act in ("cancel", "requeue"):
        [act_id] = _new(1)
        await run(c.BeginBulkAct(act_id, act, "state:queued", "why", "boss", 10, 10, last))
        await run(c.HoldBulkAct(act_id, 30_000))
        named = tuple((job_id, *_new(1)) if act == "requeue" else (job_id, None) for job_id in jobs)
        await run(c.AdvanceBulkAct(act_id, 1, 30_000, last, named, jobs[0]))
        await run(c.StopBulkAct(act_id))
    [act_id] = _new(1)
    await run(c.BeginBulkAct(act_id, "refund", "state:completed", "why", "boss", 10, 10, last, share="0.5"))
    await run(c.HoldBulkAct(act_id, 30_000))


async def schedules(run: Run, population: Population) -> None:
    name, job, other = population.names(1)[0], *_new(2)
    await run(c.DeclareSchedule("daily", "0 4 * * *", "UTC", "draw", name))
    await run(c.PauseSchedule("daily"))
    await run(c.PauseSchedule("daily", paused=False))
    await run(c.FireSchedule("daily", "0 4 * * *", "UTC", 0, 2**52, name, submit(name, job)))
    await run(c.RunSchedule("daily", name, submit(name, other)))


NOT_SAMPLED: Final = frozenset({c.RecountAccount})
"""A repair, asked for by hand, which counts all rows of an account: the hot tables have no index for it."""


async def turns(run: Run, population: Population) -> None:
    limited, failing = TurnTerms(interval_us=1_000, at_once=10), TurnTerms(failures=1)
    for number in range(3):
        await run(*(c.TakeTurn("fal", f"t{number}-{n}", limited) for n in range(3)))
        await run(*(c.EndTurn("fal", f"t{number}-{n}", limited) for n in range(3)))
    asked = submit(population.names(1)[0], _new(1)[0])
    await run(replace(asked, jobs=tuple(replace(job, provider="fal") for job in asked.jobs)))
    await run(c.EndTurn("fal", "t", failing, is_fault=True))
    await run(c.CloseBreaker("fal"), c.OpenBreaker("fal", 60_000), c.CloseBreaker("fal"))


async def figures(run: Run, population: Population) -> None:
    """As the leader adds them up, in the newest minutes and in old ones."""
    [folded] = await run(c.FoldFigures(-1, 0, 1))
    parts = tuple((minute * 60_000_000, Figures(charged=1)) for minute in range(MANY))
    for _ in range(2):
        [folded] = await run(c.FoldFigures(folded.cursor.turn, 1_000_000, 1, parts))
        assert folded.changed
    waiting = (QueueCount("pro", "draw", "gpu", folded.cursor.turn, 1),)
    [corrected] = await run(c.CorrectQueue(folded.cursor.turn, 60_000_000, waiting))
    assert corrected.changed
    await run(c.ActingAs("boss", c.NoteVerification(0)))
    await run(c.NoteVerification(0))
    forgotten = await run(c.ForgetRollups(tuple(rollup_key("minute", minute * 60_000_000) for minute in range(MANY))))
    assert forgotten[0].changed


async def mixtures(run: Run, population: Population) -> None:
    """What a store with a single lane gets."""
    for _ in range(2):
        held = population.take("leased", 10)
        await run(
            *(submit(name, new, key=new) for name, new in zip(population.names(10), _new(10), strict=True)),
            c.Claim("w", ("gpu",), 10),
            *(c.Heartbeat(job_id, 1) for job_id in held[:5]),
            *(c.Finish(job_id, c.Completed("{}"), 1) for job_id in held[5:]),
            *(c.CancelJob(job_id) for job_id in population.take("ready", 5)),
            *map(c.Recover, population.take("lapsed", 5)),
        )


Sample = Callable[[Run, Population], Awaitable[None]]
SAMPLES: Final[tuple[Sample, ...]] = (
    submits,
    submits_of_all_sorts,
    submits_alone,
    claims,
    claims_by_id,
    lives,
    leases,
    a_whale_at_its_limit,
    cancels,
    reservations,
    sweeps,
    polls,
    dead_letters,
    accounts,
    pools,
    brakes,
    workers,
    api_keys,
    acts_in_a_name,
    hooks,
    removals,
    prunes,
    refunds,
    schedules,
    files,
    files_of_jobs,
    endpoints,
    webhooks,
    sessions,
    bulk_acts,
    turns,
    figures,
    mixtures,
)


class Question(Struct, frozen=True):
    """A question, and how much it asks for: the rows that its answer may have."""

    query: q.Query[Any]
    asks: int


SEARCHED = 200
"""How many jobs a search looks at here."""


def searches() -> dict[str, q.JobMatch]:
    """Searches over each index, and for what no index knows."""
    name, other, batch = account_of(7), account_of(8), uuid_of("batch", 7)
    return {
        "for any job": q.JobMatch(),
        "for a tool that has none": q.JobMatch(tools=("none",)),
        "for an end that none has": q.JobMatch(statuses=("cancelled",)),
        "for an error that none has": q.JobMatch(errors=("xyzzy",)),
        "for what waits, of a tool that has none": q.JobMatch(statuses=("queued",), tools=("none",)),
        "for what is active, of a tool that has none": q.JobMatch(
            statuses=("queued", "starting", "running"), tools=("none",)
        ),
        "for what is held or failed": q.JobMatch(statuses=("running", "failed"), plans=("none",)),
        "for what is stuck": q.JobMatch(is_stuck=True, tools=("none",)),
        "for what is not stuck": q.JobMatch(is_stuck=False, tools=("none",)),
        "for dead letters": q.JobMatch(is_dead=True, tools=("none",)),
        "of two accounts": q.JobMatch(accounts=(name, other), errors=("xyzzy",)),
        "of the whale": q.JobMatch(accounts=(WHALE,), errors=("xyzzy",)),
        "of a batch": q.JobMatch(batches=(batch,), errors=("xyzzy",)),
        "of a session": q.JobMatch(sessions=("session-7",), errors=("xyzzy",)),
        "of a correlation id": q.JobMatch(correlation_ids=("request-7",), errors=("xyzzy",)),
        "of a key": q.JobMatch(keys=(uuid_of("api", 7),), errors=("xyzzy",)),
        "for some jobs": q.JobMatch(ids=(uuid_of("ended", 7), uuid_of("ready", 7))),
    }


def questions() -> dict[str, Question]:
    """Every question of the read side, in the forms in which the face puts it."""
    name, job, batch = account_of(7), uuid_of("ended", 7), uuid_of("batch", 7)
    some = tuple(uuid_of(kind, n) for kind in ("ended", "ready", "parked", "leased") for n in range(100, 110))
    used = tuple(uuid_of("used", n) for n in range(100, 120))
    over: tuple[Status, ...] = ("completed", "failed", "cancelled")
    held: tuple[Status, ...] = ("starting", "running")
    key = (name, "key-750", "submit")
    pages = {
        "jobs": q.ListJobs(),
        "jobs, a later page": q.ListJobs(before=uuid_of("ended", 900)),
        "jobs of an account": q.ListJobs(name),
        "jobs of an account, a later page": q.ListJobs(name, before=uuid_of("leased", 1)),
        "jobs of the whale": q.ListJobs(WHALE),
        "queued jobs of an account": q.ListJobs(name, ("queued",)),
        "held jobs of an account": q.ListJobs(name, held),
        "ended jobs of an account": q.ListJobs(name, over),
        "jobs of an account by tool and pool": q.ListJobs(name, tool="draw", pool="gpu"),
        "jobs of an account's session": q.ListJobs(name, session="none"),
        "queued jobs of the whale": q.ListJobs(WHALE, ("queued",)),
        "queued jobs": q.ListJobs(statuses=("queued",)),
        "queued jobs of a pool": q.ListJobs(statuses=("queued",), pool="gpu"),
        "held jobs": q.ListJobs(statuses=held),
        "ended jobs": q.ListJobs(statuses=over),
        "active jobs": q.ListJobs(statuses=("queued", *held)),
        "jobs of a tool that has none": q.ListJobs(tool="none"),
        "stuck jobs": q.ListJobs(stuck_before_at=1),
        "dead letters": q.ListJobs(dead=True),
        "dead letters of an account": q.ListJobs(name, dead=True),
        "an account's library": q.ListLibrary(name),
        "an account's library, a later page": q.ListLibrary(name, before=uuid_of("leased", 1)),
        "the whale's library by tool, date and words": q.ListLibrary(WHALE, "draw", 1, 2**50, "x", searched=50),
        "accounts": q.ListAccounts(name),
        "entries": q.ListEntries(name),
        "entries, a later page": q.ListEntries(name, before_number=50),
        "reservations": q.ListReservations(),
        "reservations of an account": q.ListReservations(name),
        "reservations of an account, a later page": q.ListReservations(name, before=uuid_of("used", 900)),
        "keys of an account": q.ListKeys(name),
        "keys of an account, a later page": q.ListKeys(name, key),
        "keys, a later page": q.ListKeys(after=key),
        "declared hooks": q.ListDeclaredHooks(),
        "hooks": q.ListHooks(),
        "hooks of some names": q.ListHooks(("tell",)),
        "hooks that are due": q.ListHooks(("tell",), is_due=True),
        "providers to ask": q.ListPolls(("draw",)),
        "providers": q.ListProviders(),
        "margins": q.GetMargins(0, 2**62),
        "API keys": q.ListApiKeys(),
        "API keys, a later page": q.ListApiKeys(uuid_of("api", 900)),
        "audit lines": q.ListAudit(),
        "audit lines, a later page": q.ListAudit(before_number=900),
        "accounts by prefix": q.ListAccounts(prefix=name[:-1]),
        "accounts by prefix, a later page": q.ListAccounts(name, prefix=name[:-1]),
        "files": q.ListFiles(),
        "files that jobs made": q.ListFiles(role="result"),
        "files of an account": q.ListFiles(name),
        "files of an account, a later page": q.ListFiles(name, before=uuid_of("file", 900)),
        "inputs of an account": q.ListFiles(name, "input"),
        "files that are due": q.ListDueFiles(50),
        "messages": q.ListDeliveries(),
        "messages of an account": q.ListDeliveries(name),
        "messages of an account, a later page": q.ListDeliveries(name, before=uuid_of("delivered", 900)),
        "messages to an endpoint": q.ListDeliveries(name, endpoint_id=ENDPOINT, state="pending"),
        "messages of a job": q.ListDeliveries(name, job_id=job),
        "messages that are due": q.ListDueDeliveries(),
        "messages that are due, but for some": q.ListDueDeliveries((name,), (str(uuid4()),)),
        "old messages": q.ListOldDeliveries(3 * 86_400_000),
        "figures of commits": q.ListFigures(900, limit=50),
        "old figures": q.ListOldRollups("minute", 2**50, 50),
    }
    joining = submit(account_of(7), str(uuid4()), key="key-750", content="hash-1000007", batch_id=batch, joins=True)
    found = {
        **{words: Question(query, 50) for words, query in pages.items()},
        "owed hooks": Question(q.CountHooks(50), 50),
        "how far old jobs are removed": Question(q.GetRetention(50), 50),
        "the oldest jobs": Question(q.ListOldJobs(before=uuid_of("ended", 900), limit=50), 50),
        "old jobs, a later page": Question(q.ListOldJobs(uuid_of("ended", 7), uuid_of("ready", 900), limit=50), 50),
        "old jobs by id": Question(q.ListOldJobs(ids=some), len(some)),
        "all jobs of an account": Question(q.ListOldJobs(account_id=WHALE, limit=50), 50),
        "batches with more jobs": Question(q.ListFuller((batch,), some), 1 + len(some)),
        "what an account has left": Question(q.ListRowsLeft(name, limit=50), 5 * 50),
        "files by id": Question(q.GetFiles((uuid_of("file", 900), uuid_of("file", 901))), 2),
        "files of some jobs": Question(q.ListLinkedFiles("job", some), len(some)),
        "files of some reservations": Question(q.ListLinkedFiles("reservation", used), len(used)),
        "what an account has stored": Question(q.GetFileUsage(name), 1),
        "webhook endpoints": Question(q.GetWebhookEndpoints((name, "")), 2),
        "bulk acts": Question(q.ListBulkActs(), 50),
        "schedules": Question(q.ListSchedules(), 50),
        "brakes": Question(q.ListBrakes(), 50),
        "one bulk act": Question(q.ListBulkActs(str(uuid4())), 1),
        "bulk acts that are due": Question(q.ListDueBulkActs(50), 50),
        "sessions of an account": Question(q.GetPageSessions(name), 1),
        "queued jobs of a session": Question(q.ListSessionJobs(WHALE, "s1"), 50),
        "one message": Question(q.ListDeliveries(id=uuid_of("delivered", 900)), 1),
        "what is overdue": Question(q.GetBacklog(50), 50),
        "who waits longest": Question(q.ListPoolTimes(), 50),
        "figures of all time": Question(q.GetTotal(), 1),
        "jobs by id": Question(q.GetJobs(some), len(some)),
        "one job": Question(q.GetJobs(some[:1]), 1),
        "parts of a split request": Question(q.GetParts(some[0]), 10),
        "jobs of a batch": Question(q.ListJobs(batch_id=batch, limit=1_000), 100),
        "queued jobs of a batch": Question(q.ListJobs(batch_id=batch, statuses=("queued",), limit=1_000), 100),
        "a batch": Question(q.GetBatch(batch), 100),
        **{
            f"a search {words}": Question(q.SearchJobs(match, 2**50, before, searched=SEARCHED), SEARCHED)
            for words, match in searches().items()
            for words, before in ((words, None), (f"{words}, a later part", uuid_of("dead", 0)))
        },
        "a count": Question(
            q.CountJobs(q.SearchJobs(q.JobMatch(statuses=over), limit=SEARCHED, searched=SEARCHED)), SEARCHED
        ),
        "audit lines of a target": Question(q.ListAudit(limit=1, target="API key 900"), 1),
        "audit lines of an actor": Question(q.ListAudit(limit=1, actor="nobody"), 1),
        "audit lines of a target and an actor": Question(q.ListAudit(5_000, 1, "API key 900", "boss"), 1),
        "batches": Question(q.ListBatches(limit=20, counted=2_000), 2_000),
        "jobs of a batch by checkpoint": Question(q.CountCheckpoints(str(uuid4())), 10),
        "reservations counted": Question(q.CountReservations(1, name), 10),
        "batches of an account": Question(q.ListBatches(name, limit=20, counted=2_000), 2_000),
        "dead letters by error": Question(q.SumDeadLetters(searched=200), 200),
        "events of a job's runs": Question(q.ListRunEvents(job), 10),
        "entries of a job": Question(q.ListJobEntries(job), 2),
        "an account": Question(q.GetAccount(name), 1),
        "an API key": Question(q.GetApiKey("digest-7"), 1),
        "an API key by its id": Question(q.GetApiKey(key_id=uuid_of("api", 900)), 1),
        "revoked API keys": Question(q.GetRevokedApiKeys((uuid_of("api", 900), uuid_of("api", 901))), 2),
        "a look at a submit": Question(q.GetSnapshot(needs([joining])), 1),
        "a split request": Question(q.GetParts(job), 10),
        "a history": Question(q.GetHistory(job), 10),
        "a history, a later page": Question(q.GetHistory(job, 3), 10),
        "call-backs": Question(q.ListJobEvents(job, "callback"), 10),
        "jobs of a provider's reference": Question(q.ListAccepted("ref-7"), 1),
        "commits": Question(q.ListCommits(1_000), 100),
        "new commits": Question(q.ListCommits(2**40), 1),
        "commits of an account": Question(q.ListCommits(900_000, telling_of=name), q.EVENTS_SEARCHED),
        "new commits of an account": Question(q.ListCommits(2**40, telling_of=name), 1),
        "where the search begins": Question(q.GetFirstSearched(), q.EVENTS_SEARCHED),
        "how far commits go": Question(q.GetHorizon(), 1),
        "steps": Question(q.ListSteps(job), 1),
        "what is due": Question(q.GetDue(600_000, 86_400_000, 200), 200),
        "pools": Question(q.ListPools(), 10),
        "depth of a pool": Question(q.GetQueueDepth("gpu", 50), 50),
        "pools without what waits": Question(q.ListPools(count_waiting=False), 10),
        "workers": Question(q.ListWorkers(600_000), 50),
        "figures": Question(q.GetStats(600_000), 10),
        "how far figures are added up": Question(q.GetFigurePoint(), 1),
        "figures of commits by number": Question(q.ListFigures(among=(7, 8, 2**40)), 3),
        "figures of new commits": Question(q.ListFigures(2**40), 1),
        "figures that are added up": Question(q.ListRollups("minute", 0), 50),
        "the queue counted": Question(q.GetQueueCounts(2**40), 10),
        "what alerts are made of": Question(q.GetAlertCounts(600_000, 300_000, 50), 50),
        "workers that were heard of": Question(q.ListWorkersSeen(2**50), 50),
        "the jobs with a lost run": Question(q.ListSuspects(("gpu", "cpu"), 50), 50),
        "what a worker holds": Question(q.GetCompany("worker-7"), 1),
        "a part for verify": Question(q.GetState(name, 10, texts=True), 10 * 150),
        "the look at all that waits": Question(q.GetWaiting(), 10),
    }
    assert {type(question.query) for question in found.values()} == set(q.Query.__subclasses__())
    return found


class Nature(Struct, frozen=True):
    """Why a question may do more work than its answer has rows: how much more, which tables it reads whole, and why."""

    asks: int
    whole: frozenset[str]
    why: str


def nature(asks: int, why: str, *whole: str) -> Nature:
    return Nature(asks, frozenset(whole), why)
