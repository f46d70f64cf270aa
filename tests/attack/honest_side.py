"""The process of the honest clients: `python -m tests.attack.honest_side PORT FOLDER`.

They submit at a steady rate, whatever becomes of it, follow their accounts and some of their jobs, and cancel some.
What is not answered is asked for again with the same idempotency key, as a client should. Whatever they are told they
write down first, for the checker.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from benchmarks.processes import serve
from benchmarks.serving.wire import HEAD_END, Lost, Stream, Wire, connect, request
from tests.attack.checker import FINAL
from tests.chaos.records import Record
from tests.support.waiting import until

ANSWER_S: Final = 20.0
"""A request that has no answer by then is asked again."""
PAUSE_S: Final = 0.1
TRIES: Final = 300
LANES: Final = 16
FOLLOWED: Final = 10
"""One of so many jobs is followed by a stream of its own."""
REPEATED: Final = 20
"""One of so many submits is sent twice."""
LOOKS: Final = 8


class Work(NamedTuple):
    """What is submitted, and what must become of it."""

    tool: str
    payload: dict[str, Any]
    cost: int
    end: str
    refund: int


def work(number: int) -> Work:
    match number % 10:
        case 3:
            return Work("broken", {}, 4, "failed", 4)
        case 6:
            # It waits for an hour, so it can be cancelled.
            return Work("upscale", {"image": str(number)}, 5, "cancelled", 5)
        case _:
            return Work("paint", {"prompt": f"picture {number}"}, 3, "completed", 0)


class Follower(Stream):
    """One connection of a stream whose events are written down."""

    def __init__(self, line: dict[str, str], record: Record, after: int, ended: set[str]) -> None:
        super().__init__()
        self.line = line
        self.record = record
        self.last = after
        self.ended = ended
        """Jobs whose end the stream has told, over all its connections."""
        self.over = asyncio.get_running_loop().create_future()

    def _hear(self, message: bytes) -> None:
        if message.startswith(b":"):
            return
        fields = dict(part.split(b": ", 1) for part in message.split(b"\n"))
        kind = fields.get(b"event", b"").decode()
        if kind == "missed":
            self.record.write(told="missed", account=self.line["account"], stream=self.line["stream"])
        if kind == "end":
            self.is_ended = True
        elif b"id" in fields:
            self.last = int(fields[b"id"])
            told = json.loads(fields[b"data"])
            self.record.write(told="event", **self.line, number=self.last, job=told["job_id"], kind=kind)
            if kind in FINAL:
                self.ended.add(told["job_id"])

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.over.done():
            self.over.set_result(None)


class Honest:
    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._record = Record(folder, "honest", 1)
        self._keys: dict[str, str] = {}
        self._numbers = count()
        self._jobs: dict[str, str] = {}
        """job → account"""
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, set[str]] = {}
        """Stream → jobs whose end it has told"""
        self._errors: Counter[str] = Counter()
        """What had to be asked again, and why."""

    async def prepare(self, keys: dict[str, str], credits: int) -> int:
        self._keys = keys
        for account in keys:
            self._record.write(told="opened", account=account, credits=credits)
            self._follow(account, None, "/api/account/events")
        return len(keys)

    def _follow(self, account: str, job: str | None, path: str) -> None:
        line = {"account": account, "stream": f"of {job or account}"}
        self._record.write(told="following", **line, of=job)
        self._streams[line["stream"]] = asyncio.create_task(self._stream(line, path, job is not None))

    async def _stream(self, line: dict[str, str], path: str, ends: bool) -> None:
        """A stream that is opened again after each cut, until a job's end was told."""
        after, ended = 0, self._ended.setdefault(line["stream"], set())
        while True:
            asked = request(path, self._keys[line["account"]], Last_Event_ID=str(after), Accept="text/event-stream")
            try:
                follower = await connect(self._port, partial(Follower, line, self._record, after, ended))
                status = await asyncio.wait_for(follower.ask(asked), ANSWER_S)
                if status == 200:
                    await (self._until_ended(follower) if ends else follower.over)
                after = follower.last
                follower.close()
                if follower.is_ended:
                    return
                self._errors[f"a stream got {status}" if status != 200 else "a stream was cut"] += 1
            except (OSError, Lost, TimeoutError) as error:
                self._errors[f"a stream: {type(error).__name__}"] += 1
            await asyncio.sleep(PAUSE_S)

    async def _until_ended(self, follower: Follower) -> None:
        while not follower.is_ended and not follower.over.done():
            await asyncio.wait([follower.over], timeout=PAUSE_S)

    async def submit(self, rate: int, seconds: float) -> dict[str, Any]:
        """Submits that are due at fixed times. Each one's time counts from when it was due until it was answered."""
        due: asyncio.Queue[tuple[float, int] | None] = asyncio.Queue()
        took_ms: list[float] = []
        self._errors.clear()
        begins_at = time.monotonic()
        in_time = 0

        async def lane() -> None:
            nonlocal in_time
            asker = Asker(self._port, self._errors)
            while (one := await due.get()) is not None:
                due_at, number = one
                await self._one(asker, number)
                took_ms.append((time.monotonic() - due_at) * 1_000)
                in_time += time.monotonic() < begins_at + seconds
                await self._afterwards(asker, number)
            asker.close()

        tasks = [asyncio.create_task(lane()) for _ in range(LANES)]
        for turn in range(round(rate * seconds)):
            due_at = begins_at + turn / rate
            if (left_s := due_at - time.monotonic()) > 0:
                await asyncio.sleep(left_s + 0.0005)
            due.put_nowait((due_at, next(self._numbers)))
        for _ in tasks:
            due.put_nowait(None)
        await asyncio.gather(*tasks)
        return {"took_ms": took_ms, "per_second": in_time / seconds, "errors": dict(self._errors)}

    def _account(self, number: int) -> str:
        return list(self._keys)[number % len(self._keys)]

    async def _one(self, asker: Asker, number: int) -> None:
        account, wanted = self._account(number), work(number)
        body = {"tool": wanted.tool, "payload": wanted.payload}
        if wanted.end == "cancelled":
            body["delay_s"] = 3600
        sent = request("/api/jobs", self._keys[account], json.dumps(body).encode(), Idempotency_Key=f"key-{number}")
        status, told = await asker.ask(sent, (200, 201))
        if told is None:
            self._record.write(trouble=f"a submit of {account} was never answered, last with {status}")
            return
        self._record.write(
            told="submitted", account=account, key=f"key-{number}", job=told["job_id"], cost=told["cost"],
            is_repeat=status == 200, end=wanted.end, refund=wanted.refund,
        )  # fmt: skip
        if told["cost"] != wanted.cost:
            self._record.write(trouble=f"{wanted.tool} costs {wanted.cost}, and {account} was told {told['cost']}")
        is_new = told["job_id"] not in self._jobs
        self._jobs[told["job_id"]] = account
        if is_new and number % FOLLOWED == number // FOLLOWED % FOLLOWED:
            self._follow(account, told["job_id"], f"/api/jobs/{told['job_id']}/events")
        if wanted.end == "cancelled":
            await self._cancel(asker, account, told["job_id"])

    async def _afterwards(self, asker: Asker, number: int) -> None:
        if number % REPEATED == 0:
            await self._one(asker, number)

    async def _cancel(self, asker: Asker, account: str, job: str) -> None:
        sent = request(f"/api/jobs/{job}/cancel", self._keys[account], b"{}")
        status, told = await asker.ask(sent, (200,))
        if told is None:
            self._record.write(trouble=f"a cancel of {account} was never answered, last with {status}")
        else:
            line = {name: told[name] for name in ("status", "refunded", "changed")}
            self._record.write(told="cancelled", account=account, job=job, **line)

    async def finish(self, within_s: float) -> dict[str, Any]:
        """Waits until all jobs have ended and all streams have told so, and writes down how everything is then."""
        give_up_at = time.monotonic() + within_s
        askers = [Asker(self._port, self._errors) for _ in range(LOOKS)]
        for account in self._keys:
            while (await self._look(askers[0], account, "/api/account"))["active"]:
                if time.monotonic() > give_up_at:
                    self._record.write(trouble=f"jobs of {account} have not ended after {within_s:g} s")
                    break
                await asyncio.sleep(PAUSE_S)
        jobs = iter(list(self._jobs.items()))
        await asyncio.gather(*(self._histories(asker, jobs) for asker in askers))
        for account in self._keys:
            await self._books(askers[0], account)
        accounts = {f"of {account}" for account in self._keys}
        followed = {task: stream for stream, task in self._streams.items() if stream not in accounts}
        if followed:
            _, late = await asyncio.wait(followed, timeout=max(1.0, give_up_at - time.monotonic()))
            for task in late:
                self._record.write(trouble=f"the stream {followed[task]} has not ended")
        # An account's stream has no end; what it has not told by then the checker misses.
        with suppress(AssertionError):
            told = partial(self._have_told, accounts)
            await until(told, max(1.0, give_up_at - time.monotonic()), "the end of every job")
        for task in self._streams.values():
            task.cancel()
        for asker in askers:
            asker.close()
        return {"jobs": len(self._jobs), "streams": len(self._streams)}

    def _have_told(self, streams: set[str]) -> bool:
        return sum(len(self._ended[stream]) for stream in streams) >= len(self._jobs)

    async def _look(self, asker: Asker, account: str, path: str) -> dict[str, Any]:
        status, told = await asker.ask(request(path, self._keys[account], Accept="application/json"), (200,))
        assert told is not None, f"GET {path} got {status}"
        return told

    async def _histories(self, asker: Asker, jobs: Iterator[tuple[str, str]]) -> None:
        for job, account in jobs:
            seen = await self._look(asker, account, f"/api/jobs/{job}")
            line = {name: seen[name] for name in ("status", "charged", "refunded")}
            self._record.write(seen="job", account=account, job=job, **line)
            events = (await self._look(asker, account, f"/api/jobs/{job}/events?limit=1000"))["items"]
            numbers, kinds = [one["number"] for one in events], [one["kind"] for one in events]
            self._record.write(seen="history", account=account, job=job, numbers=numbers, kinds=kinds)

    async def _books(self, asker: Asker, account: str) -> None:
        seen = await self._look(asker, account, "/api/account")
        self._record.write(seen="account", account=account, balance=seen["balance"], active=seen["active"])
        for kind, path in (("entry", "/api/account/ledger"), ("listed", "/api/jobs")):
            cursor = ""
            while True:
                page = await self._look(asker, account, f"{path}?limit=200{cursor}")
                for one in page["items"]:
                    if kind == "entry":
                        line = {name: one[name] for name in ("number", "kind", "amount", "balance_after")}
                        self._record.write(seen="entry", account=account, job=one["job_id"], **line)
                    elif self._jobs.get(one["id"]) != account:
                        self._record.write(trouble=f"{account} is shown job {one['id']}, which it never submitted")
                if page["next"] is None:
                    break
                cursor = f"&cursor={page['next']}"


class Asker:
    """One connection, opened again when it is lost, on which everything is asked until it is answered."""

    def __init__(self, port: int, errors: Counter[str]) -> None:
        self._port = port
        self._errors = errors
        self._wire: Wire | None = None

    async def ask(self, sent: bytes, wanted: tuple[int, ...]) -> tuple[int, dict[str, Any] | None]:
        """The status and what was told; after too many tries the last status, and nothing."""
        status = 0
        for _ in range(TRIES):
            try:
                if self._wire is None:
                    self._wire = await connect(self._port, Wire)
                async with asyncio.timeout(ANSWER_S):
                    answer = await self._wire.ask(sent)
            except (OSError, Lost, TimeoutError) as error:
                self.close()
                self._errors["connection lost" if isinstance(error, Lost) else type(error).__name__] += 1
            else:
                status = answer.status
                if status in wanted:
                    return status, json.loads(answer.text.partition(HEAD_END)[2])
                self._errors[str(status)] += 1
                if status not in (429, 503):
                    break
            await asyncio.sleep(PAUSE_S)
        return status, None

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


async def main(port: int, folder: Path) -> None:
    honest = Honest(port, folder)
    await serve(prepare=honest.prepare, submit=honest.submit, finish=honest.finish)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), Path(sys.argv[2])))
