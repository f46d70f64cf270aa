"""A full database: a million jobs that wait, as many that have ended, and all that belongs to them.

The first row of each kind is written by the rules and the store themselves, and then multiplied inside the database. So
a row has every column that the store gives it, also one that came only yesterday.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.core.outcomes import Refusal
from ficha.core.policy import DAY, JOB_ENDED_HOOK, SECOND, HookTerms, Plan, Policy, Webhooks
from ficha.store.base import Store
from tests.support.new_jobs import new_job

MILLION: Final = 1_000_000
WHALE: Final = "whale"
WHALE_RUNS: Final = 100
POLICY: Final = Policy(
    plans={
        "pro": Plan("pro"),
        "crew": Plan("crew", max_running=42, ageing_s=60.0),
        "whale": Plan("whale", max_running=WHALE_RUNS),
        "solo": Plan("solo", max_running=1),
    },
    hooks=(HookTerms("tell", frozenset({"completed"})), HookTerms(JOB_ENDED_HOOK, frozenset({"completed"}))),
    webhooks=Webhooks(),
    leave_grace_ms=0,
)

KINDS: Final = (
    *("ended", "dead", "ready", "parked", "whale", "due", "later", "leased", "lapsed", "awaiting", "whaled"),
    *("batch", "held", "expired", "used", "api", "file", "stale", "owed", "delivered", "outdated", "visit"),
)
"""What is numbered from zero. `parked` waits for its account's own concurrency, and so does `whale`, which one account
owns; `due` and `later` wait for a time that has come or not; a worker holds `leased` and has lost `lapsed`; `whaled`
are the whale's leases. `held`, `expired` and `used` are reservations, `api` are API keys. Of the files, nobody needs
`stale` any more. Messages to webhook endpoints are `owed`, or `delivered`, or were so long ago (`outdated`).
A `visit` is the session of a page, which is over."""
ENDPOINT: Final = "00000000-0000-7000-8000-000000000001"
"""The webhook endpoint that each account has."""

Run = Callable[..., Awaitable[list[Any]]]
"""Runs one commit group of commands, and gives their outcomes."""


def uuid_of(kind: str, number: int) -> str:
    """The id of one of a kind. All digits are decimal, so that SQL can put it together."""
    return f"{_PREFIX}{_first(kind) + number}"


_PREFIX: Final = "00000000-0000-7000-8000-"


def _first(kind: str) -> int:
    return 100_000_000_000 + KINDS.index(kind) * 10_000_000


def account_of(number: int) -> str:
    return f"account-{1_000_000 + number}"


class Population:
    """How many of each kind there are, and whose."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.accounts = size // 100
        self.counts = {
            "ended": size,
            "dead": size // 100,
            "ready": size * 40 // 100,
            "parked": size * 10 // 100,
            "whale": size * 45 // 100,
            "due": size * 4 // 100,
            "later": size // 100,
            "leased": self.accounts,
            "lapsed": self.accounts // 2,
            "awaiting": 10,
            "whaled": WHALE_RUNS,
            "batch": size // 1000,
            "held": self.accounts // 2,
            "expired": self.accounts // 2,
            "used": size // 10,
            "api": self.accounts,
            "file": size // 10,
            "stale": self.accounts // 2,
            "owed": size // 10,
            "delivered": size // 10,
            "outdated": self.accounts // 2,
            "visit": self.accounts // 2,
        }
        self._given = dict.fromkeys(self.counts, 0)
        self._named = 0

    def take(self, kind: str, count: int) -> list[str]:
        """The ids of some that nobody has used yet."""
        return [uuid_of(kind, number) for number in self.numbers(kind, count)]

    def numbers(self, kind: str, count: int) -> range:
        first = self._given[kind]
        self._given[kind] += count
        assert self._given[kind] <= self.counts[kind], f"there are no more {kind}"
        return range(first, first + count)

    def sum(self, *kinds: str) -> int:
        return sum(self.counts[kind] for kind in kinds)

    def names(self, count: int) -> list[str]:
        """Accounts without a limit, of which nothing is parked or reserved: others each time."""
        self._named += count
        assert self._named <= self.accounts // 2
        return [account_of(self.accounts - self._named + number) for number in range(count)]


# The first of each kind


def runner(store: Store) -> Run:
    """Commit groups of the real rules on a store; a refusal is a fault of the test."""
    committer, numbers = str(uuid4()), count(1)

    async def run(*group: c.Command) -> list[Any]:
        done = await store.transact(committer, next(numbers), needs(group), lambda s: decide(s, group, POLICY))
        refused = [outcome for outcome in done.outcomes if isinstance(outcome, Refusal)]
        assert not refused, refused[0]
        return done.outcomes

    return run


def submit(
    account: str, job_id: str, *, key: str | None = None, content: str | None = None, **options: Any
) -> c.Submit:
    job = new_job(job_id, "draw", "gpu", '{"prompt": "a cat"}', 1, content_hash=content)
    return c.Submit(account, (job,), fingerprint="f", key=key, **options)


def _founder(kind: str) -> str:
    """The id of the first of a kind, which the rules made."""
    return uuid_of(kind, 9_999_999)


async def found(run: Run) -> None:
    """One of each kind, made by the rules."""
    await run(
        c.DeclarePool("gpu", None),
        c.DeclarePool("tight", 20),
        c.OpenAccount("founder", "pro", 1_000_000),
        c.OpenAccount("crowded", "solo", 1_000_000),
        c.OpenAccount(WHALE, "whale", 1_000_000),
    )
    for kind in ("ended", "dead", "leased", "awaiting"):
        await run(submit("founder", _founder(kind), key=kind, content=kind))
        [claimed] = await run(c.Claim("worker", ("gpu",), 1))
        epoch = claimed.leases[0].epoch
        await run(c.Heartbeat(_founder(kind), epoch, starts=True), c.SaveStep(_founder(kind), epoch, "step", '"done"'))
        await run(c.SaveCheckpoint(_founder(kind), epoch, "half-way", 50))
        match kind:
            case "ended":
                await run(c.Finish(_founder(kind), c.Completed('{"image": "cat.png"}'), epoch))
            case "dead":
                await run(c.Finish(_founder(kind), c.Failed("no"), epoch))
            case "awaiting":
                await run(c.Finish(_founder(kind), c.AcceptedByProvider("ref", poll_ms=30_000), epoch))
    batch = (new_job(_founder("batch"), "draw", "gpu", "{}", 1), new_job(_founder("whaled"), "draw", "gpu", "{}", 1))
    await run(
        submit("crowded", _founder("ready")),
        submit("crowded", _founder("parked")),
        submit("founder", _founder("due"), delay_ms=1_000),
        c.Submit("founder", batch, batch_id=_founder("batch")),
        c.Reserve(_founder("held"), "founder", 86_400_000),
        c.Reserve(_founder("used"), "founder"),
    )
    await run(c.EndReservation(_founder("used"), "consumed"))
    key = c.CreateApiKey(_founder("api"), "founder", "hint", "digest", "user", "founder")
    await run(c.ActingAs("boss", key), c.UseApiKey(_founder("api")))
    await run(c.ChangeSession("founder", "s1", "left"))
    await run(c.BeginFile(_founder("file"), "founder", "cat.png", most=10))
    await run(c.StoreFile(_founder("file"), "founder", 5, "image/png", "digest"))
    ended, messages = _founder("ended"), tuple(("founder", ENDPOINT, _founder(kind)) for kind in ("owed", "delivered"))
    await run(
        c.AddEndpoint("founder", ENDPOINT, "https://example.com/told", "secret"),
        c.HoldHook(JOB_ENDED_HOOK, ended, 60_000),
    )
    await run(c.MakeDeliveries(JOB_ENDED_HOOK, ended, "founder", 1, "job.completed", "{}", messages))
    await run(c.HoldDelivery(_founder("delivered"), "founder", 60_000))
    await run(c.EndDelivery(_founder("delivered"), "founder", 1, 200))


# And all the others


class Dialect(Struct, frozen=True):
    """How a database says it: a series of numbers `n`, a UUID from a text, an instant from microseconds."""

    series: str
    uuid: str
    instant: str


class Growth(Struct, frozen=True):
    """Rows like the one that `like` finds, numbered from 0, with other values in some columns."""

    table: str
    like: str
    rows: int
    values: dict[str, str]

    def text(self, columns: list[str], dialect: Dialect) -> str:
        assert self.values.keys() <= set(columns), (self.table, self.values.keys() - set(columns))
        selected = ", ".join(f"{self.values.get(name, f'p.{name}')}" for name in columns)
        series = dialect.series.format(self.rows - 1)
        return (
            f"INSERT INTO {self.table} ({', '.join(columns)}) SELECT {selected} "
            f"FROM (SELECT * FROM {self.table} WHERE {self.like} LIMIT 1) p CROSS JOIN {series}"
        )


def growths(population: Population, dialect: Dialect) -> Iterator[Growth]:
    """Everything, table by table. Rows come in the order of their key, which both databases take in fastest."""
    now = time.time_ns() // 1_000
    past, future = dialect.instant.format(now - 60 * SECOND), dialect.instant.format(now + 10 * DAY)
    half = population.accounts // 2

    def uuid(kind: str, number: str = "n") -> str:
        return dialect.uuid.format(f"'{_PREFIX}' || ({_first(kind)} + {number})")

    def account(number: str) -> str:
        return f"'account-' || (1000000 + {number})"

    def some(every: int, at: int, value: str, otherwise: str = "NULL") -> str:
        return f"CASE WHEN n % {every} = {at} THEN {value} ELSE {otherwise} END"

    def ago(microseconds: str) -> str:
        """So long before a minute ago."""
        return dialect.instant.format(f"({now - 60 * SECOND} - ({microseconds}))")

    of_all, of_half = account(f"n % {population.accounts}"), account(f"n % {half}")
    owners = {
        **dict.fromkeys(("parked", "due", "later", "lapsed"), of_half),
        **dict.fromkeys(("whale", "whaled"), f"'{WHALE}'"),
    }
    alike = {"whale": "parked", "later": "due", "lapsed": "leased", "whaled": "leased"}
    wait, tight = some(4, 1, past), some(10, 0, "'tight'", "'gpu'")

    def like(table: str, kind: str, **values: str) -> Growth:
        """Rows of one kind of job, like the first of it."""
        key = "id" if table == "jobs" else "job_id"
        named = {key: uuid(kind), "account_id": owners.get(kind, of_all), **values}
        return Growth(table, f"{key} = '{_founder(alike.get(kind, kind))}'", population.counts[kind], named)

    # Of what the first of each kind went through, only the steps of those that ended are there too.
    words = {"session": some(10, 7, "'session-' || (n % 1000)"), "correlation_id": some(10, 7, "'request-' || n")}
    words["submitted_by"] = some(10, 7, uuid("api", "n % 1000"))
    yield like("jobs", "ended", batch_id=some(10, 0, uuid("batch", "n / 1000")), events="5", **words)
    yield like("jobs", "dead", events="3")
    yield like("jobs", "ready", pool=tight, wait_until_at=wait)
    yield like("jobs", "parked", wait_until_at=wait)
    for kind in ("whale", "due", "later", "leased", "lapsed"):
        yield like("jobs", kind)
    yield like("jobs", "awaiting", pool="'tight'")
    yield like("jobs", "whaled")
    yield like("ready", "ready", rank="p.rank + n", pool=tight, wait_until_at=wait, ages_at=some(4, 0, past))
    yield like("parked", "parked", rank="p.rank + n", wait_until_at=wait)
    yield like("parked", "whale", rank="p.rank + n")
    yield like("parked", "due", due_at=past)
    yield like("parked", "later", due_at=future)
    yield like("leases", "leased", worker="'worker-' || (n % 50)", expires_at=future, deadline_at=future, events="3")
    yield like("leases", "lapsed", expires_at=past, deadline_at=some(10, 1, past, future), events="3")
    yield like(
        "leases",
        "awaiting",
        ref="'ref-' || n",
        pool="'tight'",
        deadline_at=future,
        poll_at=some(10, 1, past, future),
        events="3",
    )
    yield like("leases", "whaled", expires_at=future, deadline_at=future, events="3")
    for table in ("checkpoints", "steps"):
        for kind, rows in (("ended", population.size // 10), ("leased", population.counts["leased"])):
            yield Growth(table, f"job_id = '{_founder(kind)}'", rows, {"job_id": uuid(kind)})

    # A hundred of each account, one account after the other.
    payer, paid = account("n / 100"), uuid("ended", f"(n % 100) * {population.accounts} + n / 100")
    grant, charge = "account_id = 'founder' AND kind = 'grant'", f"job_id = '{_founder('ended')}' AND kind = 'charge'"
    yield Growth("entries", grant, population.accounts, {"account_id": account("n")})
    yield Growth("entries", charge, population.size, {"account_id": payer, "number": "2 + n % 100", "job_id": paid})
    key = {"account_id": payer, "key": "'key-' || n", "job_id": paid, "expires_at": some(100, 1, past, future)}
    yield Growth("keys", "key = 'ended'", population.size, key)
    step = f"job_id = '{_founder('ended')}' AND kind = 'step'"
    yield Growth("events", step, population.size, {"job_id": uuid("ended"), "account_id": of_all})
    told = f"""'[["' || CAST({uuid("ended")} AS text) || '","' || {of_all} || '",5,"completed",null]]'"""
    commit = {"committer": "NULL", "sequence": "NULL", "size": "1", "events": told}
    yield Growth("commits", "number = 1", population.size, commit)
    told = {"job_id": uuid("ended"), "due_at": some(1_000, 1, past, future)}
    yield Growth("hooks", f"job_id = '{_founder('ended')}'", population.size // 10, told)
    contents = {"content_hash": "'hash-' || (1000000 + n)", "job_id": uuid("ended")}
    yield Growth("contents", "content_hash = 'ended'", population.size // 10, contents)
    batch = {"id": uuid("batch"), "account_id": of_all}
    yield Growth("batches", f"id = '{_founder('batch')}'", population.counts["batch"], batch)
    for kind, until in (("held", future), ("expired", past)):
        held = {"id": uuid(kind), "account_id": account("n"), "expires_at": until}
        yield Growth("reservations", f"id = '{_founder('held')}'", population.counts[kind], held)
    used = {"id": uuid("used"), "account_id": of_all}
    yield Growth("reservations", f"id = '{_founder('used')}'", population.counts["used"], used)

    api_key = {"id": uuid("api"), "account_id": of_all, "name": "'key-' || n", "digest": "'digest-' || n"}
    yield Growth("api_keys", f"id = '{_founder('api')}'", population.counts["api"], api_key)
    yield Growth("api_key_uses", f"key_id = '{_founder('api')}'", population.counts["api"], {"key_id": uuid("api")})
    yield Growth("audit", "act = 'create_api_key'", population.size // 10, {"target": "'API key ' || n"})

    file = {"id": uuid("file"), "account_id": of_all, "job_id": uuid("ended"), "expires_at": "NULL"}
    file["reservation_id"] = some(10, 0, uuid("used"))
    stale = {"id": uuid("stale"), "account_id": account("n"), "expires_at": ago("n")}
    for kind, values in (("file", file), ("stale", stale)):
        yield Growth("files", f"id = '{_founder('file')}'", population.counts[kind], values)
    # The first accounts have a stale one besides.
    each = f"({population.counts['file'] // population.accounts} + {_if(f'n < {half}')})"
    usage = {"account_id": account("n"), "files": each, "size": f"{each} * p.size"}
    yield Growth("file_usage", "account_id = 'founder'", population.accounts, usage)
    visits = {"account_id": account("n"), "next_at": ago("n")}
    yield Growth("page_sessions", "account_id = 'founder'", population.counts["visit"], visits)
    yield Growth("webhook_endpoints", "owner = 'founder'", population.accounts, {"owner": account("n")})
    for kind, like_kind, times in (
        ("owed", "owed", {"due_at": f"CASE WHEN n < {half} THEN {ago('n')} ELSE {future} END"}),
        ("delivered", "delivered", {"ended_at": ago("n")}),
        ("outdated", "delivered", {"ended_at": ago(f"n + {4 * DAY}")}),
    ):
        message = {"id": uuid(kind), "job_id": uuid("ended"), "owner": of_all, "account_id": of_all, **times}
        yield Growth("deliveries", f"id = '{_founder(like_kind)}'", population.counts[kind], message)

    # Counters as the rows above make them. The first half of the accounts has everything, the other half no limit.
    is_first = _if(f"n < {half}")
    parked, timed = (population.sum(*kinds) // half for kinds in (("parked",), ("due", "later")))
    running = f"{population.counts['ready'] // population.accounts + 1} + {is_first} + {_if('n < 10')}"
    yield Growth(
        "accounts",
        "id = 'founder'",
        population.accounts,
        {
            "id": account("n"),
            "plan": f"CASE WHEN n < {half} THEN 'crew' ELSE 'pro' END",
            "admitted": running,
            "parked": f"{parked} * {is_first}",
            "active": f"{running} + {parked + timed} * {is_first}",
            "reserved": f"2 * {is_first}",
            "submitted": "100",
            "entries": "101",
        },
    )


def whale(population: Population) -> str:
    """The account that owns nearly half of all that waits, and is at its limit."""
    parked = population.counts["whale"]
    return (
        f"UPDATE accounts SET parked = {parked}, admitted = {WHALE_RUNS}, active = {parked + WHALE_RUNS} "
        f"WHERE id = '{WHALE}'"
    )


def _if(condition: str) -> str:
    return f"(CASE WHEN {condition} THEN 1 ELSE 0 END)"
