"""Texts and JSON read back as they were written, whatever their characters and length."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec.structs import replace

from ...core import commands as c
from ...core.outcomes import Claimed, StepSaved, Submitted
from ...core.records import Event
from ...core.snapshot import Changes, JobChange
from ...store.base import ListCommits
from ..comparing import comparable
from ..driver import Driver
from .scenes import SPEC_TEXTS, finish, lease, new_job, open_house, submit

TEXTS: Final = (
    "",
    " ",
    "ação, naïve, 東京, עברית",
    "👩‍🚀 and 🇧🇷",
    'it\'s "quoted" `so` $1 %s ? :name {} [] \\ \\n --',
    "line\nbreak\ttab\r\x01\x7f",
    "NULL",
    "'; DROP TABLE jobs; --",
    "\ufeff\u200b\uffff",
)

JSON_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1.5e-7,
    [1e16, 1e22, 1.0, 100.0, -0.0, 1e308, -1.7976931348623157e308, 5e-324],
    2**53 - 1,
    -(2**53) + 1,
    "",
    [],
    {},
    [None, False, 0, "", [], {}],
    {"a": {"b": [{"c": [1, 2.25, "três", None]}]}, "": "empty name", "naïve 👩‍🚀": {'"': "\\", "\n": "\t"}},
    list(TEXTS),
    {str(number): number for number in range(200)},
)

LONG: Final = 256 * 1024


class TextConformance:
    """Texts in every field that holds one."""

    async def test_texts_of_every_kind_read_back_to_the_character(self, driver: Driver) -> None:
        await open_house(driver)
        for text in TEXTS:
            account = f"account {text}"
            await driver.run(
                c.OpenAccount(account, "pro", 100, reason=text),
                c.Credit(account, 5, "grant", reason=text, key=f"key {text}"),
                c.DeclarePool(f"pool {text}", 3),
                c.Elect(f"duty {text}", f"owner {text}", 1_000),
            )
            job = new_job(driver.new_id(), payload=json.dumps(text), **{name: f"{name} {text}" for name in SPEC_TEXTS})
            await driver.one(c.Submit(account, (job,), fingerprint=text, key=f"key {text}"), Submitted)
            await driver.one(c.Claim(f"worker {text}", (job.spec.pool,)), Claimed)
            await driver.run(
                c.SaveCheckpoint(job.id, 1, f"checkpoint {text}", 5, json.dumps({text: text})),
                c.SaveStep(job.id, 1, f"step {text}", json.dumps([text])),
            )
            await driver.check()
            await driver.run(c.Finish(job.id, c.AcceptedByProvider(f"ref {text}"), 1))
            await driver.check()
            await driver.run(c.Finish(job.id, c.Completed(json.dumps(text))))
            await driver.run(c.Finish(job.id, c.Failed(text)))
            other = await submit(driver, account)
            await driver.run(c.CancelJob(other, reason=text))
            await driver.check()

    async def test_names_as_long_as_allowed_read_back(self, driver: Driver) -> None:
        name = "👩‍🚀" * 85
        assert len(name) == 255
        await driver.run(c.OpenAccount(name, "pro", 100), c.DeclarePool(name, 1), c.Elect(name, name, 1_000))
        job = new_job(driver.new_id(), **dict.fromkeys(SPEC_TEXTS, name))
        submit_it = c.Submit(name, (job,), fingerprint=name, key=name)
        await driver.one(submit_it, Submitted)
        assert (await driver.one(submit_it, Submitted)).idempotent_hit
        await driver.run(c.Claim(name, (name,)))
        await driver.run(c.SaveStep(job.id, 1, name, "1"), c.SaveCheckpoint(job.id, 1, name))
        await driver.check()
        await driver.run(c.Finish(job.id, c.AcceptedByProvider(name), 1))
        await driver.check()
        await driver.run(c.Finish(job.id, c.Completed("{}")))
        await driver.check()

    async def test_long_texts_read_back_whole(self, driver: Driver) -> None:
        await open_house(driver)
        # With a counter in it, so that no part of the text equals another and little can be compressed.
        long = "".join(f"{number * 7919:x} ç🚀" for number in range(LONG // 8))[:LONG]
        document = json.dumps({"text": long[: LONG // 2], "more": [long[LONG // 2 :]]}, ensure_ascii=False)
        held = await lease(driver, payload=document, content_hash="long", max_attempts=2)
        assert held.payload == document
        await driver.run(
            c.SaveCheckpoint(held.job.id, 1, "HALF", 50, document),
            c.SaveStep(held.job.id, 1, "download", document),
        )
        await driver.check()
        await finish(driver, held, c.Completed(document))
        failing = await lease(driver)
        await finish(driver, failing, c.Failed(long))
        await submit(driver, "bob", content_hash="long")
        await driver.check()

    async def test_json_of_every_shape_reads_back_as_the_same_text(self, driver: Driver) -> None:
        await open_house(driver)
        for value in JSON_VALUES:
            text = json.dumps(value)
            held = await lease(driver, payload=text, content_hash=f"hash of {text[:50]}")
            await driver.run(
                c.SaveCheckpoint(held.job.id, 1, "HALF", 50, text),
                c.SaveStep(held.job.id, 1, "download", text),
                c.Report(held.job.id, 1, None, text),
            )
            again = await driver.one(c.SaveStep(held.job.id, 1, "download", '"other"'), StepSaved)
            assert (held.payload, again.result_json) == (text, text)
            await driver.check()
            await finish(driver, held, c.Completed(text))
            await submit(driver, "eva", content_hash=f"hash of {text[:50]}")
            await driver.check()

    async def test_events_keep_whatever_data_they_carry(self, driver: Driver) -> None:
        await open_house(driver)
        job = driver.expected.jobs[await submit(driver)]
        events = [
            Event(job.id, "ana", number, f"kind {number}", driver.clock(), {"value": value})
            for number, value in enumerate(JSON_VALUES, start=2)
        ]
        events.append(Event(job.id, "ana", len(events) + 2, "bare", driver.clock()))
        more = JobChange(job, replace(job, events=job.events + len(events)))
        await driver.write(Changes(jobs=[more], events=events, history=events))
        await driver.check()
        told = [event for commit in await driver.read(ListCommits()) for event in commit.events]
        assert comparable(told[-len(events) :]) == comparable(events)
