"""Whatever callers pass: a clear word about what to do instead, and nothing is changed.

Each table is walked on each database, and every row of the database is compared before and after the walk.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ficha import (
    Ficha,
    IdempotencyMismatch,
    InsufficientCredits,
    InvalidArgument,
    InvalidPayload,
    Lease,
    Limits,
    NotFound,
    Refused,
    SubmitRequest,
    TooLarge,
    UnknownTool,
)
from ficha.core import commands as c
from ficha.ids import new_id
from tests.support.shop import World, claim_one, state

Call = Callable[[Ficha], Awaitable[Any]]
Case = tuple[str, Call, type[Refused], str]

NAN, INFINITE = float("nan"), float("inf")
SURROGATE, NUL = "\ud800", "a\x00b"
NO_JOB = "01a00000-0000-7000-8000-000000000000"


async def walk(app: Ficha, cases: list[Case]) -> None:
    """Each case is refused as it should be, and changes nothing."""
    before = await state(app)
    wrong = []
    for name, call, kind, words in cases:
        try:
            answer = await call(app)
        except Refused as refused:
            if type(refused) is not kind:
                wrong.append(f"{name}: {type(refused).__name__}: {refused}")
            elif not re.search(words, str(refused)):
                wrong.append(f"{name}: {refused}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{name}: {answer}")
    assert wrong == []
    assert await state(app) == before


def submit(payload: Any = None, **fields: Any) -> Call:
    wanted = {"tool": "upscale", "payload": {"image": "x"} if payload is None else payload, "account": "ana"} | fields
    tool, sent = wanted.pop("tool"), wanted.pop("payload")
    return lambda app: app.submit(tool, sent, **wanted)


async def test_things_that_do_not_exist(app: Ficha) -> None:
    await walk(
        app,
        [
            ("account of a submit", submit(account="nobody"), NotFound, "no account 'nobody'; open it first"),
            ("account", lambda app: app.account("nobody"), NotFound, "open it first"),
            ("ledger", lambda app: app.ledger("nobody"), NotFound, "open it first"),
            ("grant", lambda app: app.grant("nobody", 5), NotFound, "open it first"),
            ("adjust", lambda app: app.adjust("nobody", 5, reason="x"), NotFound, "open it first"),
            ("reserve", lambda app: app.reserve("nobody"), NotFound, "open it first"),
            ("plan of an account", lambda app: app.open_account("b", plan="gold"), NotFound, "no plan 'gold'; declare"),
            ("plan to change to", lambda app: app.change_plan("ana", "gold"), NotFound, "are: pro, growth, starter"),
            ("account to change", lambda app: app.change_plan("nobody", "pro"), NotFound, "open it first"),
            ("tool", submit(tool="nope"), UnknownTool, "no tool 'nope'; declared are: anything, embed"),
            ("tool of many", lambda app: app.submit_batch([("nope", {})], account="ana"), UnknownTool, "declared are"),
            ("tool that is no name", submit(tool=None), UnknownTool, "declared are"),
            ("tool of another kind", submit(tool=["upscale"]), UnknownTool, "declared are"),
            ("pool to claim", lambda app: app.claim("tpu", worker="w"), NotFound, "no pool 'tpu'; declare it"),
            ("pool among others", lambda app: app.claim(["gpu", "tpu"], worker="w"), NotFound, "no pool 'tpu'"),
            ("pool to pause", lambda app: app.pause_pool("tpu"), NotFound, "no pool 'tpu'"),
            ("pool to resume", lambda app: app.resume_pool("tpu"), NotFound, "no pool 'tpu'"),
            ("pool to resize", lambda app: app.resize_pool("tpu", 3), NotFound, "no pool 'tpu'"),
            ("job", lambda app: app.job(NO_JOB), NotFound, f"no job {NO_JOB}"),
            ("job to cancel", lambda app: app.cancel(NO_JOB), NotFound, f"no job {NO_JOB}"),
            ("job to recover", lambda app: app.recover(NO_JOB), NotFound, f"no job {NO_JOB}"),
            ("job to requeue", lambda app: app.requeue(NO_JOB), NotFound, f"no job {NO_JOB}"),
            ("job to discard", lambda app: app.discard(NO_JOB), NotFound, f"no job {NO_JOB}"),
            ("batch", lambda app: app.batch(NO_JOB), NotFound, f"no batch {NO_JOB}"),
            ("batch to cancel", lambda app: app.cancel_batch(NO_JOB), NotFound, f"no batch {NO_JOB}"),
            ("batch to resume", lambda app: app.resume_batch(NO_JOB), NotFound, f"no batch {NO_JOB}"),
            ("reservation", lambda app: app.consume(NO_JOB), NotFound, f"no reservation {NO_JOB}"),
            ("reservation to release", lambda app: app.release(NO_JOB), NotFound, f"no reservation {NO_JOB}"),
            ("reservation of a submit", submit(reservation=NO_JOB), NotFound, f"no reservation {NO_JOB}"),
        ],
    )


async def test_ids_that_are_no_ids_name_nothing(app: Ficha) -> None:
    calls: dict[str, Callable[[Ficha, str], Awaitable[Any]]] = {
        "job": lambda app, bad: app.job(bad),
        "position": lambda app, bad: app.position(bad),
        "steps": lambda app, bad: app.steps(bad),
        "events": lambda app, bad: app.events(job=bad),
        "cancel": lambda app, bad: app.cancel(bad),
        "recover": lambda app, bad: app.recover(bad),
        "requeue": lambda app, bad: app.requeue(bad),
        "discard": lambda app, bad: app.discard(bad),
        "batch": lambda app, bad: app.batch(bad),
        "jobs of a batch": lambda app, bad: app.jobs(batch=bad),
        "page of jobs": lambda app, bad: app.jobs(after=bad),
        "page of dead letters": lambda app, bad: app.dead_letters(after=bad),
        "page of stuck ones": lambda app, bad: app.stuck(after=bad),
        "page of reservations": lambda app, bad: app.reservations(after=bad),
        "consume": lambda app, bad: app.consume(bad),
        "release": lambda app, bad: app.release(bad),
        "submit on a reservation": lambda app, bad: submit(reservation=bad)(app),
    }
    ids = ["", "x", "0", "1" * 33, NO_JOB[:-1], NO_JOB + "0", "g" * 36, NUL, SURROGATE, "%", "é"]
    await walk(
        app,
        [
            (f"{name} {bad!r}", lambda app, call=call, bad=bad: call(app, bad), NotFound, "an id is a UUID")
            for name, call in calls.items()
            for bad in ids
        ],
    )


async def test_ids_of_another_kind_name_nothing_either(app: Ficha) -> None:
    await walk(
        app,
        [
            (repr(bad), lambda app, bad=bad: app.job(bad), NotFound, "an id is a UUID")
            for bad in (None, 0, 1.5, True, b"x" * 16, [], {}, object())
        ],
    )


async def test_an_id_in_another_spelling_is_the_same_id(app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    for spelling in (receipt.job_id.upper(), receipt.job_id.replace("-", ""), f"{{{receipt.job_id}}}"):
        assert (await app.job(spelling)).id == receipt.job_id


async def test_amounts(app: Ficha) -> None:
    not_whole = (1.0, 1.5, NAN, INFINITE, True, False, None, "5", Decimal(5), Fraction(5), b"5", [5])
    await walk(
        app,
        [
            *(
                (f"{name} {bad!r}", lambda app, call=call, bad=bad: call(app, bad), InvalidArgument, "whole number")
                for name, call in (
                    ("grant", lambda app, bad: app.grant("ana", bad)),
                    ("adjust", lambda app, bad: app.adjust("ana", bad, reason="x")),
                    ("opening credits", lambda app, bad: app.open_account("ben", credits=bad)),
                )
                for bad in not_whole
            ),
            *(
                (f"grant {bad}", lambda app, bad=bad: app.grant("ana", bad), InvalidArgument, "1 to 1000000000000")
                for bad in (0, -1, -5, 10**12 + 1, 2**62)
            ),
            *(
                (f"adjust {bad}", lambda app, bad=bad: app.adjust("ana", bad, reason="x"), InvalidArgument, "up to ±")
                for bad in (0, 10**12 + 1, -(10**12) - 1)
            ),
            *(
                (
                    f"credits {bad}",
                    lambda app, bad=bad: app.open_account("b", credits=bad),
                    InvalidArgument,
                    "1 to 1000",
                )
                for bad in (-1, 10**12 + 1)
            ),
            *(
                (f"grant {bad}", lambda app, bad=bad: app.grant("ana", bad), InvalidArgument, "out of range")
                for bad in (2**63, -(2**63), 10**400)
            ),
            (
                "adjust below zero",
                lambda app: app.adjust("ana", -1_001, reason="x"),
                InsufficientCredits,
                "Add credits",
            ),
        ],
    )
    assert (await app.grant("ana", 10**12)).balance == 10**12 + 1_000
    assert (await app.adjust("ana", -(10**12), reason="x")).balance == 1_000


async def test_keys(app: Ficha) -> None:
    bad: list[Any] = ["", "x" * 256, "a b", "a?b", "a#b", "a\\b", "ключ", "é", "a\n", "\t", NUL, SURROGATE, "a+b", "🎫"]
    bad += ["a%20b", 7, b"k", True]
    words = "1 to 255 of the characters A-Z a-z 0-9"
    await walk(
        app,
        [(f"submit {key!r}", submit(idempotency_key=key), InvalidArgument, words) for key in bad]
        + [
            (f"grant {key!r}", lambda app, key=key: app.grant("ana", 1, key=key), InvalidArgument, words) for key in bad
        ],
    )
    for key in ("k", "K-._~9", "acme/shop:0af3c1", "://..", "x" * 255):
        first = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key=key)
        again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key=key)
        assert (first.idempotent_hit, again.idempotent_hit, again.job_id) == (False, True, first.job_id)
    await walk(
        app, [("another payload", submit({"image": "y"}, idempotency_key="k"), IdempotencyMismatch, "a new key")]
    )


async def test_the_time_a_key_is_remembered(app: Ficha) -> None:
    await walk(
        app,
        [
            (
                repr(bad),
                submit(idempotency_key="k", key_ttl_hours=bad),
                InvalidArgument,
                "key_ttl_hours must be a number of hours",
            )
            for bad in (-1, -0.001, NAN, INFINITE, True, "1", [1], 10**9, 10**400)
        ],
    )
    assert (await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", key_ttl_hours=0.5)).job_id


async def test_names(app: Ficha) -> None:
    lease = await claimed(app)
    needed: dict[str, Callable[[Ficha, Any], Awaitable[Any]]] = {
        "account to open": lambda app, bad: app.open_account(bad),
        "account to show": lambda app, bad: app.account(bad),
        "account to submit for": lambda app, bad: submit(account=bad)(app),
        "account to grant": lambda app, bad: app.grant(bad, 5),
        "account to reserve": lambda app, bad: app.reserve(bad),
        "ledger": lambda app, bad: app.ledger(bad),
        "plan": lambda app, bad: app.change_plan("ana", bad),
        "worker": lambda app, bad: app.claim("gpu", worker=bad),
        "one of the pools": lambda app, bad: app.claim(["gpu", bad], worker="w"),
        "pool to pause": lambda app, bad: app.pause_pool(bad),
        "length of a pool": lambda app, bad: app.queue_length(bad),
        "depth of a pool": lambda app, bad: app.queue_depth(bad),
        "checkpoint": lambda app, bad: app.checkpoint(lease, bad),
        "step": lambda app, bad: app.save_step(lease, bad, 1),
        "reference": lambda app, bad: app.accept(lease, bad),
    }
    optional: dict[str, Callable[[Ficha, Any], Awaitable[Any]]] = {
        "plan to open with": lambda app, bad: app.open_account("new", plan=bad),
        "session": lambda app, bad: submit(session=bad)(app),
        "correlation id": lambda app, bad: submit(correlation_id=bad)(app),
        "jobs of an account": lambda app, bad: app.jobs(account=bad),
        "jobs of a tool": lambda app, bad: app.jobs(tool=bad),
        "jobs of a pool": lambda app, bad: app.jobs(pool=bad),
        "jobs of a session": lambda app, bad: app.jobs(session=bad),
        "events of an account": lambda app, bad: app.events(account=bad),
        "dead letters of an account": lambda app, bad: app.dead_letters(account=bad),
        "reservations of an account": lambda app, bad: app.reservations(account=bad),
        "keys of an account": lambda app, bad: app.idempotency_keys(account=bad),
        "page of accounts": lambda app, bad: app.accounts(after=bad),
        "cancel for an account": lambda app, bad: app.cancel(lease.job_id, account=bad),
        "consume for an account": lambda app, bad: app.consume(NO_JOB, account=bad),
        "release for an account": lambda app, bad: app.release(NO_JOB, account=bad),
    }
    names = ["", "x" * 256, NUL, SURROGATE, "a\nb", "a\x7fb", "\u2028", 7, b"ana", ["ana"]]
    words = "must be text of 1 to 255|NUL|surrogate|control character"
    await walk(
        app,
        [
            (f"{name} {bad!r}", lambda app, call=call, bad=bad: call(app, bad), InvalidArgument, words)
            for calls, values in ((needed, [*names, None]), (optional, names))
            for name, call in calls.items()
            for bad in values
        ],
    )


async def claimed(app: Ficha) -> Lease:
    await app.submit("upscale", {"image": "x"}, account="ana")
    return await claim_one(app)


async def test_names_of_any_language_are_taken(app: Ficha) -> None:
    for name in ("x" * 255, "José", "李雷", "🎫", "a'b\"c;--", "%_\\", "[/bold]", " ", "null", "NaN"):
        await app.open_account(name, plan="open", credits=10)
        receipt = await app.submit("upscale", {"image": name}, account=name, session=name, idempotency_key="k")
        job = (await app.jobs(account=name, session=name, include=["payload"])).items[0]
        assert (job.id, job.account, job.session, job.payload) == (receipt.job_id, name, name, {"image": name})
    assert await app.verify() == []


async def test_payloads_that_are_no_json(app: Ficha) -> None:
    deep: Any = "x"
    for _ in range(64):
        deep = [deep]
    knot: dict[str, Any] = {}
    knot["knot"] = knot
    cases = [
        *((repr(bad), bad, "must be a JSON object") for bad in ([], [1], "x", 5, 0, "", False, (), b"{}", {1, 2})),
        ("NaN", {"a": NAN}, "holds nan, which JSON does not have: send null or text"),
        ("infinity", {"a": [1, {"b": INFINITE}]}, "holds inf"),
        ("minus infinity", {"a": -INFINITE}, "holds -inf"),
        ("a lone surrogate", {"a": SURROGATE}, "lone surrogate"),
        ("a lone surrogate as a name", {SURROGATE: 1}, "lone surrogate"),
        ("a NUL", {"a": NUL}, "NUL character"),
        ("a NUL as a name", {NUL: 1}, "NUL character"),
        ("a large integer", {"a": 2**53}, "send it as a string"),
        ("a small integer", {"a": -(2**53)}, "send it as a string"),
        ("a huge integer", {"a": 10**5_000}, "send it as a string"),
        ("a number as a name", {1: "a"}, "is not text"),
        ("None as a name", {None: "a"}, "is not text"),
        ("bytes as a name", {b"a": 1}, "is not text"),
        ("bytes", {"a": b"a"}, "holds a bytes, which is not JSON"),
        ("a set", {"a": {1}}, "holds a set, which is not JSON"),
        ("a date", {"a": datetime.now(UTC)}, "holds a datetime, which is not JSON"),
        ("a decimal", {"a": Decimal(1)}, "holds a Decimal, which is not JSON"),
        ("an object", {"a": object()}, "holds a object, which is not JSON"),
        ("too deep", {"a": deep}, "nested too deep"),
        ("endless", knot, "nested too deep"),
    ]
    await walk(app, [(name, submit(bad, tool="anything"), InvalidPayload, words) for name, bad, words in cases])
    many = await app.submit_many([SubmitRequest(tool="anything", payload=bad, account="ana") for _, bad, _ in cases])
    assert all(isinstance(answer, InvalidPayload) for answer in many)
    await walk(
        app,
        [
            (
                f"batch of {name}",
                lambda app, bad=bad: app.submit_batch([("anything", {}), ("anything", bad)], account="ana"),
                InvalidPayload,
                words,
            )
            for name, bad, words in cases
        ],
    )


async def test_payloads_at_the_edge_are_kept_to_the_letter(app: Ficha) -> None:
    deep: Any = "x"
    for _ in range(63):
        deep = [deep]
    for payload in (
        {},
        {"a": deep},
        {"a": 2**53 - 1, "b": -(2**53) + 1, "c": 0.1, "d": -0.0, "e": 1e15, "f": 5e-324},
        {"": "", "é": "🎫\u2028\u007f\ufffe", "<script>": "'; DROP TABLE jobs; --", "\\u0000": "\\"},
        {"a": None, "b": [True, False, [], {}], "z": {"y": {"x": 1}}},
    ):
        receipt = await app.submit("anything", payload, account="ana")
        job = await app.job(receipt.job_id)
        assert job.payload == payload
        lease = await claim_one(app, "cpu")
        assert lease.payload == payload
        await app.finish(lease, payload)
        assert (await app.job(receipt.job_id)).result == payload


async def test_payloads_and_results_over_the_limit(world: World) -> None:
    app = await world.open(limits=Limits(payload_bytes=1_000, result_bytes=500))
    await app.open_account("ana", plan="open", credits=100)
    room = 1_000 - len('{"image":""}')
    assert (await app.submit("upscale", {"image": "x" * room}, account="ana")).status == "queued"
    assert (await app.submit("upscale", {"image": "é" * (room // 2)}, account="ana")).status == "queued"
    (lease, other) = await app.claim("gpu", limit=2, worker="w")
    too_large = "more than the 1000 allowed; nothing was changed. Store large data elsewhere and pass its address"
    await walk(
        app,
        [
            ("payload", submit({"image": "x" * (room + 1)}), TooLarge, too_large),
            ("payload in bytes", submit({"image": "é" * (room // 2 + 1)}), TooLarge, too_large),
            ("result", lambda app: app.finish(lease, "x" * 499), TooLarge, "the result is 501 bytes"),
            ("step", lambda app: app.save_step(lease, "s", "x" * 499), TooLarge, "the step's result is 501 bytes"),
            ("data", lambda app: app.checkpoint(lease, "c", data="x" * 499), TooLarge, "data is 501 bytes"),
        ],
    )
    await app.save_step(lease, "s", "x" * 498)
    await app.checkpoint(lease, "c", data="x" * 498)
    assert (await app.finish(lease, "x" * 498)).changed
    assert (await app.finish(other, None)).changed


async def test_the_usual_limit_of_a_payload_is_256_kib(app: Ficha) -> None:
    room = 262_144 - len('{"image":""}')
    await walk(app, [("payload", submit({"image": "x" * (room + 1)}), TooLarge, "262145 bytes")])
    receipt = await app.submit("upscale", {"image": "x" * room}, account="ana")
    assert len((await app.job(receipt.job_id)).payload["image"]) == room


async def test_payloads_that_do_not_fit_the_tool(app: Ficha) -> None:
    await walk(
        app,
        [
            (repr(payload), submit(payload, tool=tool), InvalidPayload, words)
            for tool, payload, words in (
                ("upscale", {}, "image: Field required"),
                ("upscale", {"image": 5}, "image: Input should be a valid string"),
                ("upscale", {"image": None}, "image: Input should be a valid string"),
                ("upscale", {"image": "x", "scale": "2"}, "scale: Input should be a valid integer"),
                ("upscale", {"image": "x", "scale": 2.5}, "scale: Input should be a valid integer"),
                ("upscale", {"image": "x", "scale": True}, "scale: Input should be a valid integer"),
                ("upscale", {"image": "x", "size": 2}, "size: Extra inputs are not permitted"),
                ("upscale", {"image": "x", "job": 2}, "job: Extra inputs are not permitted"),
                ("images", {"n": 0}, "needs n to be at least 1, not 0"),
                ("images", {"n": -3}, "needs n to be at least 1, not -3"),
                ("images", {"n": 1.0}, "n: Input should be a valid integer"),
                ("embed_all", {"texts": "abc"}, "texts: Input should be a valid array"),
                ("embed_all", {"texts": [1]}, r"texts\.0: Input should be a valid string"),
            )
        ],
    )


async def test_times(app: Ficha) -> None:
    lease = await claimed(app)
    bad_seconds = (-1, -0.001, NAN, INFINITE, True, "1", None, [1], 10**12, 10**400)
    await walk(
        app,
        [
            *(
                (
                    f"{name} {bad!r}",
                    lambda app, call=call, bad=bad: call(app, bad),
                    InvalidArgument,
                    "number of seconds",
                )
                for name, call in (
                    ("delay", lambda app, bad: app.submit("upscale", {"image": "x"}, account="ana", delay_s=bad)),
                    ("retry", lambda app, bad: app.retry(lease, bad)),
                )
                for bad in bad_seconds
            ),
            *(
                (f"reserve {bad!r}", lambda app, bad=bad: app.reserve("ana", ttl_s=bad), InvalidArgument, "of seconds")
                for bad in bad_seconds
                if bad is not None
            ),
            *(
                (f"run_at {bad!r}", submit(run_at=bad), InvalidArgument, "run_at must be a datetime")
                for bad in (1.5, 0, "2030-01-01", timedelta(1), datetime.now(UTC).date(), True)
            ),
            (
                "the end of time",
                submit(run_at=datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))),
                InvalidArgument,
                "run_at must be a datetime",
            ),
            (
                "a moment before it",
                submit(run_at=datetime(9999, 12, 31, 23, 59, tzinfo=UTC)),
                InvalidArgument,
                "at most 365 days ahead",
            ),
        ],
    )
    for run_at in (datetime.now(UTC) + timedelta(days=364), datetime(1, 1, 1, tzinfo=UTC)):
        receipt = await app.submit("upscale", {"image": "x"}, account="ana", run_at=run_at)
        assert (await app.job(receipt.job_id)).status == "queued"
    assert (await app.retry(lease, 0)).status == "queued"


async def test_numbers(app: Ficha) -> None:
    lease = await claimed(app)
    odd = (-1, 1.5, True, "1", NAN, 10**400, [1])
    await walk(
        app,
        [
            *(
                (
                    f"progress {bad!r}",
                    lambda app, bad=bad: app.checkpoint(lease, "c", progress=bad),
                    InvalidArgument,
                    "100",
                )
                for bad in (*odd, 101, None)
            ),
            *(
                (
                    f"claim {bad!r}",
                    lambda app, bad=bad: app.claim("gpu", limit=bad, worker="w"),
                    InvalidArgument,
                    "1000",
                )
                for bad in (*odd, 0, 1_001, None)
            ),
            *(
                (f"slots {bad!r}", lambda app, bad=bad: app.resize_pool("gpu", bad), InvalidArgument, "slots must be")
                for bad in (*odd, 1_000_001)
            ),
            *(
                (
                    f"delivered {bad!r}",
                    lambda app, bad=bad: app.finish(lease, 1, delivered=bad),
                    InvalidArgument,
                    "deliv",
                )
                for bad in odd
            ),
            *(
                (
                    f"of {bad!r}",
                    lambda app, bad=bad: app.finish(lease, 1, delivered=1, of=bad),
                    InvalidArgument,
                    "of must",
                )
                for bad in (*odd, 0)
            ),
            *(
                (f"{name} {bad!r}", lambda app, call=call, bad=bad: call(app, bad), InvalidArgument, "whole number")
                for name, call in (
                    ("ledger", lambda app, bad: app.ledger("ana", before=bad)),
                    ("events", lambda app, bad: app.events(after=bad)),
                )
                for bad in (-1, 1.5, True, "x", "-1", "1.5", "", "٣", NAN, 2**63, 10**400, [1])
            ),
            *(
                (
                    f"workers {bad!r}",
                    lambda app, bad=bad: app.run_worker(concurrency=bad),
                    InvalidArgument,
                    "concurrency",
                )
                for bad in (*odd, 0, 1_001)
            ),
        ],
    )
    for progress in (0, 100):
        await app.checkpoint(lease, "c", progress=progress)
    assert (await app.job(lease.job_id)).progress == 100


async def test_lists_of_names(app: Ficha) -> None:
    await walk(
        app,
        [
            *(
                (f"pools {bad!r}", lambda app, bad=bad: app.claim(bad, worker="w"), InvalidArgument, "pool")
                for bad in ([], (), 5, None, [5], {"gpu": 1, 5: 2}, b"gpu")
            ),
            *(
                (f"statuses {bad!r}", lambda app, bad=bad: app.jobs(statuses=bad), InvalidArgument, "statuses")
                for bad in (["nope"], "queued", ["queued", 5], [None], 5, [["queued"]])
            ),
            *(
                (f"after {bad!r}", lambda app, bad=bad: app.idempotency_keys(after=bad), InvalidArgument, "after")
                for bad in ("abc", ("a",), ("a", "b"), ("a", "b", "c", "d"), 5, ("a", 5, "submit"), ("a", NUL, "grant"))
            ),
            (
                "no plan",
                lambda app: app.open_account("new", plan=["pro"]),
                InvalidArgument,
                "text of 1 to 255",
            ),
        ],
    )


async def test_errors_of_any_kind_are_passed_on_as_well_as_they_can_be(app: Ficha) -> None:
    for error, shown in (
        ("a" * 20_000, "a" * 10_000 + "…"),
        (NUL, "a�b"),
        (SURROGATE, "�"),
        (ValueError("no"), "no"),
        (None, "None"),
        ("", ""),
        ("line\nbreak\ttab", "line\nbreak\ttab"),
    ):
        lease = await claimed(app)
        await app.fail(lease, error)
        assert (await app.job(lease.job_id)).error == shown
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    await app.cancel(receipt.job_id, reason=NUL)
    await app.grant("ana", 5, reason=SURROGATE + "x" * 20_000)
    assert await app.verify() == []


async def test_results_that_are_no_json_leave_the_job_where_it_is(app: Ficha) -> None:
    lease = await claimed(app)
    await walk(
        app,
        [
            (
                f"{name} of {bad!r}",
                lambda app, call=call, bad=bad: call(app, bad),
                InvalidPayload,
                "not JSON|JSON does not",
            )
            for bad in (b"x", {b"x"}, NAN, object(), {"a": INFINITE})
            for name, call in (
                ("finish", lambda app, bad: app.finish(lease, bad)),
                ("step", lambda app, bad: app.save_step(lease, "s", bad)),
                ("checkpoint", lambda app, bad: app.checkpoint(lease, "c", data=bad)),
            )
        ],
    )
    assert (await app.job(lease.job_id)).status == "starting"


async def test_a_job_of_another_lease_is_refused_by_its_epoch(app: Ficha) -> None:
    lease = await claimed(app)
    await walk(
        app,
        [
            (
                f"epoch {bad!r}",
                lambda app, bad=bad: app.finish_job(lease.job_id, c.Completed("1"), epoch=bad),
                kind,
                words,
            )
            for bad, kind, words in (
                (-1, InvalidArgument, "an epoch must be"),
                (1.5, InvalidArgument, "an epoch must be"),
                (True, InvalidArgument, "an epoch must be"),
                (2**31, InvalidArgument, "an epoch must be"),
            )
        ],
    )
    assert (await app.finish_job(lease.job_id, c.Completed("1"), epoch=lease.epoch)).changed


async def test_new_ids_are_not_taken_for_others(app: Ficha) -> None:
    await walk(app, [("job", lambda app: app.job(new_id()), NotFound, "there is no job")])
