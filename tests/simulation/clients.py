"""Whoever is outside: clients, operators and the provider. They never crash, and trust no answer to come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

from ficha.app import Ficha
from ficha.core import commands as c
from ficha.errors import Refused
from ficha.operations import AllOperations
from ficha.store.base import StoreError

from .application import PLANS, POOLS, TOOLS
from .history import History
from .machines import Lost, Machine

Act = Callable[[Ficha], Awaitable[Any]]

EQUAL: Final = ("equal 1", "equal 2")
"""Marks of work that many submit."""


class Requester:
    """Asks any server, and asks again when there is no answer."""

    def __init__(self, servers: Sequence[Machine], random: Random, history: History) -> None:
        self._servers = servers
        self._random = random
        self._history = history
        self._marks = 0

    async def ask(self, act: Act, tries: int = 1) -> Any:
        """The answer, or None where there was a refusal or no answer at all."""
        for attempt in range(tries):
            try:
                return await self._random.choice(self._servers).call(act)
            except Refused as refused:
                if not refused.retryable:
                    return None
            except (Lost, StoreError):
                pass
            await asyncio.sleep(self._random.random() * min(4.0, 0.2 * 2**attempt))
        return None

    async def insist(self, act: Act) -> Any:
        """Asks until there is an answer."""
        answer = None
        while answer is None:
            answer = await self.ask(act, tries=10)
        return answer


class Client(Requester):
    """One account's user: submits, cancels, reserves, reads; twice at once, if need be."""

    def __init__(self, name: str, account: str, *args: Any) -> None:
        super().__init__(*args)
        self.name = name
        self.account = account
        self.jobs: list[str] = []
        self.tools: Sequence[str] = TOOLS
        """What it asks for."""
        self._submits: list[tuple[str, dict[str, Any], str | None]] = []

    async def run(self, acts: int) -> None:
        for _ in range(acts):
            await asyncio.sleep(self._random.expovariate(1.0) * 1.5)
            match self._random.randrange(12):
                case 0:
                    await self._cancel()
                case 1:
                    await self._reserve()
                case 2 | 3:
                    await self._look()
                case 4:
                    await self._repeat()
                case 5:
                    await self._batch()
                case _:
                    await self._submit()

    def _mark(self) -> str:
        self._marks += 1
        return f"{self.name}-{self._marks}"

    def _wanted(self) -> tuple[str, dict[str, Any], str | None]:
        tool = self._random.choice(self.tools)
        payload: dict[str, Any] = {"mark": self._mark()}
        if tool == "many":
            payload["count"] = self._random.randint(1, 5)
        key = payload["mark"] if self._random.random() < 0.75 else None
        if tool in ("same", "shared"):
            payload["mark"] = EQUAL[self._marks % len(EQUAL)]
        return tool, payload, key

    async def _submit(self, **options: Any) -> None:
        wanted = self._wanted()
        self._submits.append(wanted)
        if self._random.random() < 0.15:
            options["delay_s"] = self._random.random() * 5
        if wanted[2] is not None and self._random.random() < 0.25:
            # Two clicks, or two tabs.
            await asyncio.gather(*(self._send(*wanted, **options) for _ in range(2)))
        else:
            await self._send(*wanted, **options)

    async def _send(self, tool: str, payload: dict[str, Any], key: str | None, **options: Any) -> None:
        def act(app: Ficha) -> Awaitable[Any]:
            return app.submit(tool, payload, account=self.account, idempotency_key=key, **options)

        self._history.send(self.account, payload["mark"], key)
        # Without a key nobody may ask twice: the first may have been carried out.
        receipt = await self.ask(act, tries=1 if key is None else 8)
        if receipt is not None:
            self.jobs.append(receipt.job_id)

    async def _repeat(self) -> None:
        """An earlier submit once more, sometimes with the key of another."""
        keyed = [submit for submit in self._submits if submit[2] is not None]
        if keyed:
            tool, payload, key = self._random.choice(keyed)
            if self._random.random() < 0.3:
                _, _, key = self._random.choice(keyed)
            await self._send(tool, payload, key)

    async def _batch(self) -> None:
        mark = self._mark()
        twice, key = f"{mark} twice", f"batch-{mark}"
        for sent in (mark, twice):
            self._history.send(self.account, sent, key)
        items = [("quick", {"mark": mark}), *[("same", {"mark": twice})] * 2, ("slow", {"mark": mark})]
        receipt = await self.ask(
            lambda app: app.submit_batch(items, account=self.account, idempotency_key=key), tries=5
        )
        if receipt is None:
            return
        match self._random.randrange(3):
            case 0:
                await self.ask(lambda app: app.cancel_batch(receipt.batch_id))
            case 1:
                await asyncio.sleep(self._random.random() * 15)
                await self.ask(lambda app: app.resume_batch(receipt.batch_id, account=self.account))

    async def _cancel(self) -> None:
        if self.jobs:
            job_id = self._random.choice(self.jobs)
            await asyncio.gather(
                *(
                    self.ask(lambda app: app.cancel(job_id, account=self.account))
                    for _ in range(self._random.randint(1, 2))
                )
            )

    async def _reserve(self) -> None:
        held = await self.ask(lambda app: app.reserve(self.account))
        if held is None:
            return
        await asyncio.sleep(self._random.random() * 3)
        match self._random.randrange(4):
            case 0:
                await self.ask(lambda app: app.release(held.id, account=self.account), tries=3)
            case 1:
                await self.ask(lambda app: app.consume(held.id), tries=3)
            case 2:
                await self._submit(reservation=held.id)

    async def _look(self) -> None:
        if self.jobs:
            job_id = self._random.choice(self.jobs)
            view = await self.ask(lambda app: app.part(job_id))
            if view is not None:
                self._history.read(job_id, view.status)
        await self.ask(lambda app: app.account(self.account))


class Operator(Requester):
    """Pauses and resizes pools, deals with dead letters, moves accounts between plans, grants credits twice, rotates
    API keys; all of it in a name of its own."""

    def __init__(self, accounts: Sequence[str], *args: Any) -> None:
        super().__init__(*args)
        self._accounts = accounts

    async def ask(self, act: Callable[[AllOperations], Awaitable[Any]], tries: int = 1) -> Any:
        return await super().ask(lambda app: act(app.acting("operator")), tries)

    async def run(self, acts: int) -> None:
        for number in range(acts):
            await asyncio.sleep(self._random.expovariate(1.0) * 2.0)
            account = self._random.choice(self._accounts)
            pool = self._random.choice(POOLS).name
            match self._random.randrange(8):
                case 0:
                    await self.ask(lambda app, pool=pool: app.pause_pool(pool))
                    await asyncio.sleep(self._random.random() * 4)
                    await self.ask(lambda app, pool=pool: app.resume_pool(pool), tries=5)
                case 1:
                    slots = self._random.choice((None, 0, 1, 3, 5))
                    await self.ask(lambda app, pool=pool, slots=slots: app.resize_pool(pool, slots))
                case 2 | 3:
                    await self._dead_letters()
                case 4:
                    plan = self._random.choice(PLANS).name
                    await self.ask(lambda app, account=account, plan=plan: app.change_plan(account, plan))
                case 5:
                    await self._pay(account, f"pay-{number}")
                case 6:
                    await self.ask(lambda app: app.sweep())
                    await self._rotate()
                case 7:
                    await self._recover_all()

    async def _dead_letters(self) -> None:
        page = await self.ask(lambda app: app.dead_letters())
        for job in page.items if page is not None else ():
            if self._random.random() < 0.5:
                await self.ask(lambda app, job=job: app.requeue(job.id))
            else:
                await self.ask(lambda app, job=job: app.discard(job.id))

    async def _pay(self, account: str, payment: str) -> None:
        """A payment's call-back, which comes more than once and to more than one server."""

        def act(app: AllOperations) -> Awaitable[Any]:
            return app.grant(account, 10, reason=f"{account} {payment}", key=payment)

        await asyncio.gather(*(self.ask(act, tries=4) for _ in range(self._random.randint(1, 3))))

    async def _rotate(self) -> None:
        """New API keys for old ones, made by several at once who do not know of each other."""
        await asyncio.gather(*(self.ask(lambda app: app.create_api_key("ci", scope="service")) for _ in range(3)))
        page = await self.ask(lambda app: app.api_keys(limit=1))
        for key in page.items if page is not None else ():
            await self.ask(lambda app, key=key: app.revoke_api_key(key.id), tries=3)

    async def _recover_all(self) -> None:
        """Somebody who sees stuck jobs everywhere."""
        page = await self.ask(lambda app: app.jobs(statuses=("starting", "running"), limit=5))
        for job in page.items if page is not None else ():
            await self.ask(lambda app, job=job: app.recover(job.id))


class Caller(Requester):
    """The provider: takes work and calls back late, twice, never, or with something else each time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Any, *args: Any) -> None:
        super().__init__(*args)
        self._loop = loop
        self._context = context
        self._refs = 0
        self.listens = False
        self.heard: set[str] = set()
        """The jobs of whose end it was told."""

    def hears(self, job_id: str) -> None:
        self.heard.add(job_id)

    def accept(self, job_id: str) -> str:
        self._refs += 1
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 3))):
            after_s = self._random.choice((0.0, 0.2, 2.0, 10.0, 30.0)) * self._random.random()
            self._loop.create_task(self._call_back(job_id, after_s), context=self._context)
        return f"ref-{self._refs}"

    async def _call_back(self, job_id: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        said = self._random.getrandbits(32)
        ending = self._random.choice(
            (
                c.Completed(f'{{"said":{said}}}'),
                c.Completed(f'{{"said":{said}}}'),
                c.Failed("the provider could not do it"),
                c.Failed("the provider refuses", final=True),
                c.CancelledByHandler("the provider gave up"),
            )
        )
        await self.ask(lambda app: app.finish_job(job_id, ending), tries=4)
