"""Webhooks: endpoints, and the messages to them in every state."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...core import commands as c
from ...core.outcomes import DeliveryHeld
from ...core.policy import JOB_ENDED_HOOK, HookTerms, Webhooks
from ...core.records import Delivery, Status
from ...core.snapshot import Changes
from ...store.base import GetBacklog, GetWebhookEndpoints, ListDeliveries, ListDueDeliveries, ListOldDeliveries
from ..driver import Driver
from .scenes import open_house, submit

ENDS: frozenset[Status] = frozenset({"cancelled"})
BODY = '{"type": "job.cancelled", "words": "it\'s \\"é\\"\\u2028"}'


async def told(driver: Driver, owner: str, endpoint_id: str, job_id: str) -> str:
    """Makes a message that a hook owes; returns its id."""
    await driver.run(c.HoldHook(JOB_ENDED_HOOK, job_id, 60_000))
    attempt, delivery_id = driver.expected.hooks[JOB_ENDED_HOOK, job_id].attempts, driver.new_id()
    names = ((owner, endpoint_id, delivery_id),)
    await driver.run(c.MakeDeliveries(JOB_ENDED_HOOK, job_id, "ana", attempt, "job.cancelled", BODY, names))
    return delivery_id


async def listed(driver: Driver, **asked: Any) -> list[str]:
    return [delivery.id for delivery in await driver.read(ListDeliveries(**asked))]


async def due(driver: Driver, **asked: Any) -> list[str]:
    return [delivery.id for delivery in await driver.read(ListDueDeliveries(**asked))]


class WebhookConformance:
    """The queries for sending messages, and for showing them."""

    async def test_endpoints_and_messages_read_back_after_every_change(self, driver: Driver) -> None:
        endpoints = await self._open(driver)
        await driver.check()
        found = await driver.read(GetWebhookEndpoints(("ana", "", "nobody")))
        assert {owner: [one.id for one in row.endpoints] for owner, row in found.items()} == endpoints
        job_id = await submit(driver)
        await driver.run(c.CancelJob(job_id))
        delivery_id = await told(driver, "ana", endpoints["ana"][0], job_id)
        await driver.check()
        held = await driver.one(c.HoldDelivery(delivery_id, "ana", 60_000), DeliveryHeld)
        assert held.endpoint is not None
        await driver.check()
        await driver.run(c.EndDelivery(delivery_id, "ana", 1, 500, "it's away", 0.5))
        await driver.check()
        [delivery] = await driver.read(ListDeliveries(id=delivery_id))
        assert delivery == driver.expected.of(Delivery)[delivery_id]
        assert (delivery.body, delivery.job_id, delivery.answered) == (BODY, job_id, 500)
        await driver.run(
            c.ResendDelivery(delivery_id, "ana"),
            c.RotateSecret("ana", endpoints["ana"][0], "new", 60_000),
            c.ChangeEndpoint("ana", endpoints["ana"][1], "removed"),
        )
        await driver.check()
        # Held and disabled in one commit group.
        await driver.run(c.HoldDelivery(delivery_id, "ana", 1), c.EndDelivery(delivery_id, "ana", 2, 410))
        await driver.check()
        assert driver.expected.of(Delivery)[delivery_id].state == "failed"

    async def test_messages_are_listed_newest_first_by_what_they_are(self, driver: Driver) -> None:
        endpoints = await self._open(driver)
        first, second = endpoints["ana"]
        jobs = [await submit(driver) for _ in range(3)]
        await driver.run(*(c.CancelJob(job_id) for job_id in jobs))
        sent = [
            await told(driver, "ana", first, jobs[0]),
            await told(driver, "ana", second, jobs[1]),
            await told(driver, "", endpoints[""][0], jobs[2]),
        ]
        await driver.run(c.HoldDelivery(sent[0], "ana", 1), c.EndDelivery(sent[0], "ana", 1, 200))
        assert [(await driver.read(GetBacklog(most))).messages for most in (1, 2, 3)] == [1, 2, 2]
        assert await listed(driver) == sent[::-1]
        assert await listed(driver, owner="ana") == [sent[1], sent[0]]
        assert await listed(driver, owner="") == [sent[2]]
        assert await listed(driver, owner="ana", limit=1) == [sent[1]]
        assert await listed(driver, owner="ana", before=sent[1]) == [sent[0]]
        assert await listed(driver, endpoint_id=second) == [sent[1]]
        assert await listed(driver, job_id=jobs[2]) == [sent[2]]
        assert (await listed(driver, state="delivered"), await listed(driver, owner="bob")) == ([sent[0]], [])

    async def test_what_is_due_leaves_out_the_busy_and_whatever_waits_for_an_earlier_one(self, driver: Driver) -> None:
        endpoints = await self._open(driver)
        first, second = endpoints["ana"]
        operators = endpoints[""][0]
        jobs = [await submit(driver) for _ in range(2)]
        await driver.run(*(c.CancelJob(job_id) for job_id in jobs))
        one = await told(driver, "ana", first, jobs[0])
        driver.clock.advance(1)
        other = await told(driver, "", operators, jobs[1])
        assert await due(driver) == [one, other]
        assert (await due(driver, limit=1), await due(driver, not_owners=("ana",))) == ([one], [other])
        assert await due(driver, not_owners=("",)) == [one]
        assert await due(driver, not_endpoints=(first, second)) == [other]
        assert await due(driver, not_endpoints=(operators,), not_owners=("ana",)) == []
        # A later message to the same endpoint about the same job waits, also while the earlier one is retried.
        sent = driver.expected.of(Delivery)[one]
        later = replace(sent, id=driver.new_id(), created_at=driver.clock(), due_at=driver.clock())
        elsewhere = replace(later, id=driver.new_id(), endpoint_id=second)
        await driver.write(Changes(keyed=[later, elsewhere]))
        assert await due(driver) == [one, other, elsewhere.id]
        await driver.run(c.HoldDelivery(one, "ana", 60_000))
        assert await due(driver) == [other, elsewhere.id]
        await driver.run(c.EndDelivery(one, "ana", 1, 200))
        assert await due(driver) == [other, later.id, elsewhere.id]
        await driver.run(c.HoldDelivery(other, "", 60_000), c.EndDelivery(other, "", 1, None, "away"))
        assert await due(driver) == [later.id, elsewhere.id]
        driver.clock.advance(5)
        assert await due(driver) == [later.id, elsewhere.id, other]

    async def test_what_ended_is_old_from_the_exact_millisecond(self, driver: Driver) -> None:
        endpoints = await self._open(driver)
        jobs = [await submit(driver) for _ in range(2)]
        await driver.run(*(c.CancelJob(job_id) for job_id in jobs))
        sent = [await told(driver, "ana", endpoints["ana"][0], job_id) for job_id in jobs]
        for delivery_id in sent:
            await driver.run(c.HoldDelivery(delivery_id, "ana", 1), c.EndDelivery(delivery_id, "ana", 1, 200))
            driver.clock.advance(1)
        driver.clock.advance(58)
        driver.clock.now -= 1
        assert await driver.read(ListOldDeliveries(60_000)) == []
        driver.clock.now += 1
        assert await driver.read(ListOldDeliveries(60_000)) == [sent[0]]
        driver.clock.advance(1)
        assert await driver.read(ListOldDeliveries(60_000)) == sent
        assert await driver.read(ListOldDeliveries(60_000, 1)) == [sent[0]]
        await driver.run(*(c.ForgetDelivery(delivery_id) for delivery_id in sent))
        await driver.check()
        assert driver.expected.of(Delivery) == {}

    async def _open(self, driver: Driver) -> dict[str, list[str]]:
        """The endpoints of ana and of the operator."""
        await open_house(driver)
        driver.policy = replace(driver.policy, hooks=(HookTerms(JOB_ENDED_HOOK, ENDS),), webhooks=Webhooks(kept_s=60))
        endpoints = {"ana": [driver.new_id(), driver.new_id()], "": [driver.new_id()]}
        for owner, ids in endpoints.items():
            for endpoint_id in ids:
                await driver.run(c.AddEndpoint(owner, endpoint_id, "https://hooks.example/?é", "secret"))
        return endpoints
