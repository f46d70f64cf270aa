"""One simulation: a shared database, servers, workers, callers and faults, all from one seed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from random import Random
from typing import Final
from unittest.mock import patch

from msgspec import Struct

import ficha.app
import ficha.core.webhooks
import ficha.operations.file_access
import ficha.worker.bulk_runner
import ficha.worker.collector
import ficha.worker.due_runner
from ficha.core.figures import CURSOR
from ficha.core.invariants import uncounted_runs, violations
from ficha.core.records import Delivery, FigureCursor, File
from ficha.core.states import FINAL
from ficha.core.webhooks import OPERATOR
from ficha.store.base import StoreError
from tests.support.figure_sums import wrong_figures

from .application import PLANS, POOLS, PROVIDER_POOL, simulated_app
from .clients import Caller, Client, Operator, Requester
from .database import Database, Kind
from .decisions import Decisions
from .faults import draw_faults
from .history import History, TellingEngine, unfinished
from .loop import VirtualLoop
from .machines import HOLD_S, Machine, collecting_late, dawdling, serving, working
from .network import Network, SimulatedOutbound
from .provider_sites import POLL_S, ProviderSite
from .provider_watcher import ProviderWatcher
from .receivers import PAUSES_S, TERMS, OutboxWatcher, WebhookUser
from .sandbox import sandbox
from .store import SimulatedStore
from .stored_bytes import Bucket, FileSite, FileUser, SimulatedStorage, is_swept, wrong_files
from .trace import Trace
from .visitors import Generous, Visitor, VisitWatcher
from .watcher import Watcher

HAS_LAYER: Final = find_spec("ficha.store.postgres.optimistic") is not None
"""It may be taken away (tests/stores/test_detached.py)."""
ACCOUNTS: Final = 5
PATIENCE_S: Final = 600.0
"""After the faults stop, everything must come to its end within this time."""
AWAY: Final = (
    "the database is unavailable",
    "the database went away",
    "another transaction holds rows that this call needs",
)
"""What a call is told whose commit group could not be written in time."""


class Report(Struct):
    """What came of a seed."""

    seed: int
    wrong: list[str]
    last: list[str]
    digest: str
    steps: int
    commits: int
    jobs: int
    virtual_s: float


class World:
    """Everything there is."""

    def __init__(self, seed: int) -> None:
        stream = partial(_stream, seed)
        self.loop = VirtualLoop(stream("order"))
        self.trace = Trace(self.loop)
        self.random = stream("world")
        self.product = stream("product")
        self.faults = draw_faults(stream("weather"))  # A stream's name is part of what a seed means.
        kind = _kind(self.random)
        self.database = Database(self.loop, self.faults, stream("database"), kind)
        self.database.is_optimistic = is_optimistic(seed)
        self.duties = stream("duties")
        self.has_hooks = has_hooks(seed)
        """In the other worlds there is less to do between claims, and other faults are found sooner."""
        self.outside = stream("outside")
        self.has_outside = has_outside(seed)
        """Whether there are providers that tools call, and receivers of webhooks. Its chance is its own, so that other
        worlds stay as they are."""
        self.leavers = stream("leavers")
        self.visits = stream("visits")
        self.has_visits = has_visits(seed)
        """Whether pages come and go, and an operator gives money back."""
        self.network = Network(self.loop, self.faults, self.outside)
        self.bucket = Bucket(self.network)
        self.sites: list[ProviderSite] = []
        self.decisions = Decisions()
        self._seed = seed
        self.machines: list[Machine] = []

    def run(self) -> Report:
        with ExitStack() as stack:
            stack.enter_context(sandbox(self.loop, self.product))
            stack.enter_context(self.decisions.overheard())
            stack.enter_context(patch.object(ficha.app, "Engine", TellingEngine))
            stack.enter_context(patch.object(ficha.app, "Outbound", partial(SimulatedOutbound, self.network)))
            stack.enter_context(patch.object(ficha.worker.collector, "HOLD_S", HOLD_S))
            stack.enter_context(patch.object(ficha.worker.due_runner, "POLL_S", POLL_S))
            stack.enter_context(patch.object(ficha.worker.bulk_runner, "HOLD_S", HOLD_S))
            stack.enter_context(patch.object(ficha.worker.bulk_runner, "STEP_JOBS", 2))
            stack.enter_context(patch.object(ficha.core.webhooks, "PAUSES_S", PAUSES_S))
            access = ficha.operations.file_access
            stack.enter_context(patch.object(access, "open_storage", lambda url: SimulatedStorage(self.bucket)))
            stack.enter_context(patch.object(access.FileAccess, "inspected", self._inspected))
            stack.enter_context(_listening(self.trace))
            self.loop.set_exception_handler(self._unexpected)
            try:
                self.loop.run_until_complete(self._run())
            except RuntimeError:
                if not self.trace.wrong:
                    raise
            except Exception as error:
                self.trace.wrong.append(f"the simulation itself broke: {error!r}")
                raise
            finally:
                report = self._report()
                self.trace.is_over = True
                asyncio.set_event_loop(None)
                self.loop.bury([process for machine in self.machines for process in machine.buried])
        return report

    async def _inspected(self, *_: object) -> tuple[str, str | None]:
        """A child process would look at the bytes."""
        await asyncio.sleep(self.outside.random() * 0.1)
        return "text/plain", "the file is a bomb" if self.outside.random() < 0.05 else None

    def _report(self) -> Report:
        return Report(
            seed=self._seed,
            wrong=list(self.trace.wrong),
            last=list(self.trace.last),
            digest=self.trace.digest(),
            steps=self.loop.steps,
            commits=self.database.commits,
            jobs=len(self.database.state.jobs),
            virtual_s=self.loop.now,
        )

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.trace.fail(f"{context.get('message')}: {context.get('exception')!r}")

    async def _run(self) -> None:
        """Opens the shop, lets everybody act under faults, stops the faults, waits, and looks at what is left."""
        policy = simulated_app(
            SimulatedStore(self.database, self.loop.outside, self.decisions), self.random, _Nobody(self.has_hooks)
        ).policy
        watcher = Watcher(self.database, policy, self.trace)
        history = TellingEngine.history = History(watcher, self.trace)
        self.trace.note(
            f"seed {self._seed}: {self.database.kind}, optimistic: {self.database.is_optimistic}, {self.faults}"
        )
        servers: list[Machine] = []
        providers = self._providers(servers, watcher, history)
        provider = Caller(self.loop, self.loop.outside.context, servers, self.random, history)
        provider.listens = self.has_hooks
        self._provider = provider
        # Where servers work too, a claim from a pool without a limit may wait for the submit that it answers.
        apart = self.duties.random() < 0.5
        if apart and self.duties.random() < 0.5:
            self.faults.hint_lost = 1.0
        for n in range(self.random.randint(1, 3)):
            duty = working(self.random, self.trace, ["cpu"]) if apart and self.duties.random() < 0.6**n else serving
            servers.append(self._machine(f"server{n}", duty))
        for n in range(self.random.randint(1, 3)):
            pools = ["gpu", "default", *([PROVIDER_POOL] if self.sites else [])] if apart else None
            self._machine(f"worker{n}", working(self.random, self.trace, pools))
        for n in range(self.random.randint(0, 2)):
            self._machine(f"dawdler{n}", dawdling(self.random))
        if self.sites and self.outside.random() < 0.7:
            self._machine("collector", collecting_late(self.outside))
        accounts = [f"account{n}" for n in range(self.random.randint(1, ACCOUNTS))]
        operator = Operator(accounts, servers, self.random, history)
        clients = [
            Client(f"{account}.{n}", account, servers, self.random, history) for account in accounts for n in range(2)
        ]
        for client in clients if apart else ():
            client.tools = ("quick", "quick", "quick", "many", "slow")
        for client in clients if self.sites else ():
            # About half of what is asked for is a provider's work.
            client.tools = (*client.tools, *[site.host for site in self.sites] * (len(client.tools) // len(self.sites)))
        for account in accounts:
            await self._open(operator, account)
        owners = [*accounts, OPERATOR] if self.has_outside else []
        user = WebhookUser(owners, self.network, self.trace, servers, self.outside, history)
        self.outbox = OutboxWatcher(self.database, user)
        watcher.others.append(self.outbox.watch)
        uploaders = [
            FileUser(f"{account}.files", account, servers, self.outside, history) for account in accounts if self.sites
        ]
        self.visit_watcher = VisitWatcher(policy)
        watcher.others.append(self.visit_watcher.watch)
        visitors = [
            Visitor(self.visits, f"{account}.page", account, servers, self.visits, history)
            for account in accounts
            if self.has_visits
        ]
        generous = Generous(servers, self.visits, history)
        nemesis = asyncio.create_task(self._nemesis())
        await asyncio.gather(
            operator.run(self.random.randint(0, 10)),
            *(client.run(self.random.randint(1, 8)) for client in clients),
            user.run(),
            *(uploader.run(self.outside.randint(1, 4)) for uploader in uploaders),
            *(visitor.run(self.visits.randint(3, 12)) for visitor in visitors),
            *([generous.run(self.visits.randint(1, 5))] if visitors else []),
        )
        nemesis.cancel()
        await self._heal(operator, providers)
        await self._wait()
        for sentence in (*unfinished(self.database.state), *history.untrue(self.database.state)):
            self.trace.fail(sentence)
        for sentence in (
            *self.visit_watcher.wrong(self.database.state, self.database.clock()),
            *providers.wrong(self.database.state),
            *self.outbox.wrong(self.database.state),
            *wrong_files(self.database.state, self.bucket, {site.host for site in self.sites}),
        ):
            self.trace.fail(sentence)
        for job_id in sorted(self.database.state.jobs.keys() - provider.heard) if self.has_hooks else ():
            self.trace.fail(f"nobody was told that job {job_id} ended")
        state = self.database.state
        for sentence in (*violations(state), *uncounted_runs(state), *wrong_figures(state)):
            self.trace.fail(sentence)
        if erases(self._seed):
            await self._erase(operator, accounts)
        await self._close()

    async def _erase(self, operator: Operator, accounts: list[str]) -> None:
        """People leave, while processes crash: all that was theirs goes, whatever is killed, and the money stays."""
        before = {(entry.account_id, entry.number): entry.amount for entry in self.database.state.entries}
        crashes = asyncio.create_task(self._crashes())
        leaving = accounts[: self.leavers.randint(1, len(accounts))]
        for account in leaving:
            await operator.insist(lambda app, account=account: app.erase(account))
        crashes.cancel()
        await self._settle()
        state = self.database.state
        after = {(entry.account_id, entry.number): entry.amount for entry in state.entries}
        if {name: after.get(name) for name in before} != before:
            self.trace.fail("an erasure changed the ledger")
        for sentence in violations(state):
            self.trace.fail(sentence)
        rows = [*state.jobs.values(), *state.keys.values(), *state.reservations.values(), *state.batches.values()]
        for row in (*rows, *state.of(File).values(), *state.of(Delivery).values()):
            if row.account_id in leaving and getattr(row, "state", None) != "removed":
                self.trace.fail(f"{row} is left of an account that was erased")

    async def _crashes(self) -> None:
        while True:
            await asyncio.sleep(self.leavers.expovariate(2.0))
            self._crash()

    def _providers(self, servers: list[Machine], watcher: Watcher, history: History) -> ProviderWatcher:
        """The providers of this world, and whoever watches what becomes of their jobs."""
        if self.has_outside:
            caller = Requester(servers, self.outside, history)
            for n in range(self.outside.randint(1, 2)):
                ask = partial(caller.ask, tries=4)
                site = ProviderSite(f"provider{n}", self.network, self.outside, self.trace, ask)
                self.network.add(site)
                self.network.add(FileSite(f"files-of-{site.host}", self.bucket))
                self.sites.append(site)
        found = ProviderWatcher(self.loop, {site.host: site for site in self.sites})
        watcher.others.append(found.watch)
        return found

    async def _open(self, operator: Operator, account: str) -> None:
        plan = self.random.choice(PLANS).name
        credits = self.random.choice((10, 50, 200))
        while account not in self.database.state.accounts:
            await operator.ask(lambda app: app.open_account(account, plan=plan, credits=credits), tries=5)
            await asyncio.sleep(0.1)

    def _machine(self, name: str, duty: object) -> Machine:
        machine = Machine(
            name,
            duty,
            self.loop,
            self.database,
            self.decisions,
            self.random,
            self._provider,
            self.trace,
            self.sites,
            TERMS if self.has_outside else None,
        )
        self.machines.append(machine)
        return machine

    # The faults

    async def _nemesis(self) -> None:
        faults, random = self.faults, self.random
        acts = (
            (faults.crash_every_s, self._crash),
            (faults.stop_every_s, self._stop),
            (faults.away_every_s, lambda: self._away(random.choice((0.1, 2.0, 20.0)) * random.random())),
            (faults.slow_every_s, lambda: self._slow(random.choice((10, 100)), random.random() * 3)),
            (faults.step_every_s, self._step_clock),
        )
        if self.sites:
            acts += ((10.0, self._provider_down),)

        async def now_and_then(every_s: float, act: object) -> None:
            while True:
                await asyncio.sleep(random.expovariate(1 / every_s))
                act()

        await asyncio.gather(*(now_and_then(every_s, act) for every_s, act in acts if every_s))

    def _crash(self) -> None:
        """Some callbacks from now, between two awaits of whatever the process is doing then."""
        machine = self.random.choice(self.machines)

        def explode() -> None:
            machine.crash()
            self.database.later(self.random.choice((0.1, 1.0, 8.0)) * self.random.random(), machine.boot)

        if not machine.process.is_dead and not machine.process.fuse:
            machine.process.explode = explode
            machine.process.fuse = self.random.randint(1, 60)

    def _stop(self) -> None:
        machine = self.random.choice(self.machines)
        seconds = self.random.choice((0.5, 7.0, 15.0, 45.0)) * (0.5 + self.random.random())
        if not machine.process.is_dead and not machine.process.fuse:
            machine.process.explode = lambda: machine.stop(seconds)
            machine.process.fuse = self.random.randint(1, 60)

    def _away(self, seconds: float) -> None:
        self.trace.note(f"the database goes away for {seconds:.2f} s")
        if self.random.random() < 0.5:
            self.database.falls_for_s = seconds
        else:
            self.database.go_away(seconds)

    def _slow(self, times: float, seconds: float) -> None:
        self.trace.note(f"the database is {times} times slower for {seconds:.2f} s")
        self.database.slowness = times

        def recover() -> None:
            self.database.slowness = 1.0

        self.database.later(seconds, recover)

    def _provider_down(self) -> None:
        site, seconds = self.outside.choice(self.sites), self.outside.choice((2.0, 8.0)) * self.outside.random()
        self.trace.note(f"{site.host} is down for {seconds:.2f} s")
        site.down_until = self.loop.now + seconds

    def _step_clock(self) -> None:
        if self.random.random() < 0.3:
            step_s = self.random.choice((-1.0, -0.05, 0.05, 3.0, 20.0))
            self.trace.note(f"the database's clock is set by {step_s} s")
            self.database.offset_s += step_s
            for site in self.sites if step_s > 0 else ():
                site.clock_set_at = self.loop.now
            for receiver in self.outbox.receivers if step_s < 0 else ():
                receiver.clock_set_back_at = self.loop.now
        else:
            process = self.random.choice(self.machines).process
            process.skew_s += self.random.choice((-3_600.0, -1.0, 1.0, 3_600.0))

    # The end

    async def _heal(self, operator: Operator, providers: ProviderWatcher) -> None:
        self.trace.note("the faults stop")
        self.faults.calm()
        for site in (*self.sites, *self.outbox.receivers, self.bucket):
            site.calm()
        providers.healed_at = self.loop.now
        self.database.slowness = 1.0
        self.database.falls_for_s = None
        await self._settle()
        for pool in POOLS:
            await operator.insist(lambda app, pool=pool: app.resume_pool(pool.name))
            await operator.insist(lambda app, pool=pool: app.resize_pool(pool.name, None))

    async def _settle(self) -> None:
        """Waits until every process is up, and no call is under way."""
        for machine in self.machines:
            machine.process.fuse = 0
            machine.go_on(machine.process)
        # A server that stood still may only now carry out a call that its caller gave up long ago.
        ends_at = self.loop.now + PATIENCE_S
        while not all(machine.is_up and not machine.is_serving for machine in self.machines) or (
            self.database.has_late_commits
        ):
            if self.loop.now > ends_at:
                self.trace.fail("a process does not start, or a call is never answered")
            await asyncio.sleep(0.1)

    async def _wait(self) -> None:
        ends_at = self.loop.now + PATIENCE_S
        state = self.database.state
        while self.loop.now < ends_at:
            if (
                all(job.status in FINAL for job in state.jobs.values())
                and all(held.state != "active" for held in state.reservations.values())
                and not state.hooks
                and self.outbox.is_over()
                and is_swept(state)
                and self._is_added_up()
                and self.visit_watcher.is_over(state)
            ):
                # Whatever is still on its way, late call-backs above all, must change nothing any more.
                await asyncio.sleep(self.random.choice((0.0, 0.0, 0.0, 40.0)))
                return
            await asyncio.sleep(0.5)

    def _is_added_up(self) -> bool:
        """Whether the figures of all commits are in the rollups; the leader sees to it every few seconds."""
        cursor = self.database.state.of(FigureCursor).get(CURSOR, FigureCursor(CURSOR))
        return all(row.figures is None or row.number <= cursor.number for row in self.database.commit_rows)

    async def _close(self) -> None:
        """Every process closes in good order; then no transaction and no lock is left."""
        await asyncio.gather(
            *(
                self.loop.create_task(machine.shut_down(), context=machine.process.context)
                for machine in self.machines
                if not machine.process.is_dead
            )
        )
        await asyncio.sleep(10.0)
        if self.database.open or len(self.database.locks):
            self.trace.fail(f"{len(self.database.open)} transactions and {len(self.database.locks)} locks are left")
        if self.database.locks.deadlocks:
            self.trace.fail(f"there were {self.database.locks.deadlocks} deadlocks: locks were taken in no fixed order")


def _stream(seed: int, name: str) -> Random:
    return Random(f"{seed} {name}")


def _kind(random: Random) -> Kind:
    return "postgres" if random.random() < 0.8 else "sqlite"


def is_optimistic(seed: int) -> bool:
    """Whether PostgreSQL's optimistic layer runs in this seed: in half of those that are PostgreSQL's."""
    return HAS_LAYER and _kind(_stream(seed, "world")) == "postgres" and _stream(seed, "layer").random() < 0.5


def is_plain(seed: int) -> bool:
    """Whether the database is PostgreSQL without the layer, where locks alone keep commit groups apart."""
    return _kind(_stream(seed, "world")) == "postgres" and not is_optimistic(seed)


def has_outside(seed: int) -> bool:
    """Whether tools of this seed call providers."""
    return _stream(seed, "outside").random() < 0.5


def has_visits(seed: int) -> bool:
    """Whether pages come and go in this seed."""
    return _stream(seed, "visits").random() < 0.4


def erases(seed: int) -> bool:
    """Whether accounts are erased at the end of this seed."""
    return _stream(seed, "erasures").random() < 0.4


def has_hooks(seed: int) -> bool:
    return _stream(seed, "hooks").random() < 0.3


class _Nobody:
    """Stands for the provider where only the application's settings are wanted."""

    def __init__(self, listens: bool) -> None:
        self.listens = listens

    def accept(self, job_id: str) -> str:
        raise AssertionError("nobody takes work here")

    def hears(self, job_id: str) -> None:
        raise AssertionError("nobody is told here")


@contextmanager
def _listening(trace: Trace) -> Iterator[None]:
    """Errors that the code under test only logs. Those that a lost connection explains are none, nor is a job that a
    worker leaves to others because it is stopped while the database cannot be written to."""
    logger = logging.getLogger("ficha")

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            is_left = record.getMessage() == "abandoned" and record.__dict__["error"].startswith(AWAY)
            if not isinstance(error, StoreError) and not is_left:
                trace.fail(f"logged: {record.getMessage()} {record.__dict__.get('error', record.exc_info)}")

    ear = Ear(logging.ERROR)
    before = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.setLevel(before[0])
        logger.propagate = before[1]
