"""API keys, the audit log, and the snapshot that a command would be decided on."""

from __future__ import annotations

from ...core import commands as c
from ...core.needs import needs
from ...core.outcomes import ApiKeyChanged, Refusal
from ...core.records import ApiKey, AuditLine
from ...core.snapshot import Changes
from ...store.base import (
    ApiKeyList,
    Decision,
    GetApiKey,
    GetRevokedApiKeys,
    GetSnapshot,
    ListApiKeys,
    ListAudit,
    NumberedLine,
)
from ..comparing import comparable
from ..driver import Driver
from .scenes import api_key, new_job, one_in_each_place, open_house

LONG = "\N{OLD ITALIC LETTER A}'\"\\{}[],\n" * 30


class IdentityConformance:
    """API keys, the audit log, snapshots."""

    async def test_there_are_no_keys_and_no_lines_in_an_empty_store(self, driver: Driver) -> None:
        assert await driver.read(ListApiKeys()) == ApiKeyList(driver.clock(), [])
        assert await driver.read(GetApiKey("digest")) == ApiKeyList(driver.clock(), [])
        assert await driver.read(GetApiKey(key_id=driver.new_id())) == ApiKeyList(driver.clock(), [])
        assert await driver.read(ListAudit()) == []

    async def test_api_keys_read_back_after_every_change(self, driver: Driver) -> None:
        await open_house(driver)
        first, second, third = (driver.new_id() for _ in range(3))
        await driver.run(
            api_key(first, LONG[:50], ttl_ms=1_000),
            api_key(second, scope="user", account_id="ana"),
            api_key(third, scope="service"),
        )
        await driver.check()
        driver.clock.advance(0.000_001)
        await driver.run(c.UseApiKey(first), c.UseApiKey(second), c.UseApiKey(driver.new_id()))
        await driver.check()
        driver.clock.advance(1)
        await driver.run(c.UseApiKey(second), c.RevokeApiKey(second), c.UseApiKey(second), c.RevokeApiKey(first))
        await driver.check()
        assert driver.expected.api_keys[second].revoked_at == driver.clock()
        driver.clock.advance(1)
        assert not (await driver.one(c.RevokeApiKey(second), ApiKeyChanged)).changed
        await driver.check()

    async def test_api_keys_are_listed_newest_first_in_pages_by_the_stores_clock(self, driver: Driver) -> None:
        ids = [driver.new_id() for _ in range(7)]
        await driver.run(*(api_key(key_id, f"key {number}") for number, key_id in enumerate(ids)))
        await driver.run(c.RevokeApiKey(ids[2]), c.UseApiKey(ids[3]))
        driver.clock.advance(1)
        for size in (1, 2, 7, 8):
            found: list[str] = []
            while part := (await driver.read(ListApiKeys(found[-1] if found else None, size))).keys:
                assert len(part) <= size
                found += [row.key.id for row in part]
                assert len(found) <= len(ids), "the pages repeat themselves"
            assert found == ids[::-1], f"in pages of {size}"
        listed = await driver.read(ListApiKeys())
        assert listed.now == driver.clock()
        assert [row.last_used_at is not None for row in listed.keys] == [row.key.id == ids[3] for row in listed.keys]

    async def test_it_is_told_which_of_some_keys_are_revoked(self, driver: Driver) -> None:
        ids = [driver.new_id() for _ in range(4)]
        await driver.run(*(api_key(key_id, f"key {number}", ttl_ms=1) for number, key_id in enumerate(ids)))
        await driver.run(c.RevokeApiKey(ids[1]), c.RevokeApiKey(ids[2]))
        driver.clock.advance(1)
        asked = (ids[0], ids[1], ids[1], driver.new_id())
        assert await driver.read(GetRevokedApiKeys(asked)) == [ids[1]], "an expired one is not revoked"
        found = await driver.read(GetRevokedApiKeys(tuple(ids)))
        assert sorted(found) == sorted(ids[1:3])
        assert await driver.read(GetRevokedApiKeys(())) == []

    async def test_a_name_is_loaded_with_all_keys_that_were_not_revoked(self, driver: Driver) -> None:
        ids = [driver.new_id() for _ in range(4)]
        await driver.run(api_key(ids[0], ttl_ms=1), api_key(ids[1]), api_key(ids[2], "CI"))
        driver.clock.advance(1)
        await driver.run(api_key(ids[3]), c.RevokeApiKey(ids[1]))
        snapshot = await driver.load(needs([api_key(driver.new_id()), api_key(driver.new_id(), "none")]))
        assert {name: {key.id for key in keys} for name, keys in snapshot.api_keys_of.items()} == {
            "ci": {ids[0], ids[3]},
            "none": set(),
        }
        assert list(snapshot.api_keys.values()) == [None, None]

    async def test_of_many_keys_made_at_once_two_live(self, driver: Driver) -> None:
        outcomes = await driver.race(*([api_key(driver.new_id())] for _ in range(8)))
        codes = sorted(one.code if isinstance(one, Refusal) else "" for [one] in outcomes)
        assert codes == ["", ""] + ["INVALID_STATE"] * 6
        await driver.check()

    async def test_audit_lines_read_back_in_the_order_in_which_they_were_written(self, driver: Driver) -> None:
        await open_house(driver)
        for number in range(3):
            driver.clock.advance(0.000_001)
            await driver.run(
                c.ActingAs("boss", c.Credit("ana", number + 1, "grant", reason=LONG)),
                c.ActingAs(f"{LONG[:40]} {number}", c.PausePool("cpu", paused=number == 1)),
                c.Credit("ana", 1, "grant"),
                c.ActingAs("boss", c.Credit("ana", 0, "grant")),
            )
            await driver.check()
        lines = await driver.read(ListAudit())
        assert [line.line.act for line in lines] == [
            "resume_pool",
            "grant",
            "pause_pool",
            "grant",
            "resume_pool",
            "grant",
        ]
        numbers = [line.number for line in lines]
        assert numbers == sorted(set(numbers), reverse=True)
        for size in (1, 4, 6, 7):
            found: list[NumberedLine] = []
            while part := await driver.read(ListAudit(found[-1].number if found else None, size)):
                assert len(part) <= size
                found += part
                assert len(found) <= len(lines), "the pages repeat themselves"
            assert found == lines, f"in pages of {size}"

    async def test_a_line_stands_or_falls_with_what_it_tells_of(self, driver: Driver) -> None:
        await open_house(driver)
        credit = c.ActingAs("boss", c.Credit("ana", 5, "grant"))

        def broken(_snapshot: object) -> Decision:
            raise ZeroDivisionError

        try:
            await driver.store.transact(driver.new_id(), 1, needs([credit]), broken)
        except ZeroDivisionError:
            assert await driver.read(ListAudit()) == []
        await driver.run(credit, c.ActingAs("boss", c.Credit("nobody", 5, "grant")))
        await driver.check()
        [line] = await driver.read(ListAudit())
        assert line.line.target == "account ana"

    async def test_the_details_of_a_line_may_be_any_json(self, driver: Driver) -> None:
        line = AuditLine(
            driver.clock(), LONG, "act", LONG, {"": None, "n": 2**53 - 1, "b": True, LONG: [1.5, {}, LONG]}
        )
        await driver.write(Changes(audit=[line]))
        [found] = await driver.read(ListAudit())
        assert comparable(found.line) == comparable(line)

    async def test_the_snapshot_of_a_command_can_be_read(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        batch, key_id, held = driver.new_id(), driver.new_id(), driver.new_id()
        await driver.run(
            c.Submit("bob", (new_job(driver.new_id()), new_job(driver.new_id())), batch_id=batch, key="k1"),
            api_key(key_id),
            c.Reserve(held, "ana"),
        )
        new = new_job(driver.new_id(), content_hash="same")
        commands: list[c.Command] = [
            c.Submit("ana", (new,), key="k1", reservation_id=held),
            c.Submit("bob", (new_job(driver.new_id()),), batch_id=batch, joins=True, key="k1"),
            c.Submit("nobody", (new_job(driver.new_id()),), batch_id=driver.new_id(), joins=True),
            *map(c.CancelJob, (places.ready, places.parked, places.delayed, places.running, places.awaiting, "none")),
            c.SaveStep(places.running, 1, "download", "1"),
            c.Requeue(places.dead, driver.new_id()),
            c.Claim("w1", ("gpu", "cpu", "tpu", "none"), limit=2),
            c.ChangePlan("bob", "pro"),
            c.PausePool("gpu"),
            c.Elect("sweeper", "a", 1_000),
            api_key(driver.new_id()),
            c.RevokeApiKey(key_id),
        ]
        for asked in (*([command] for command in commands), commands):
            wanted = needs(asked)
            looked = await driver.read(GetSnapshot(wanted))
            loaded = await driver.load(wanted)
            assert comparable(looked) == comparable(loaded), asked
        await driver.check()

    async def test_reading_a_snapshot_changes_nothing_and_sees_what_is_committed(self, driver: Driver) -> None:
        await open_house(driver)
        asked = GetSnapshot(needs([c.Credit("ana", 1, "grant")]))
        before = await driver.read(asked)
        await driver.run(c.Credit("ana", 1, "grant"))
        after = await driver.read(asked)
        assert before.accounts["ana"] is not None
        assert after.accounts["ana"] == driver.expected.accounts["ana"] != before.accounts["ana"]
        assert after.now == driver.clock()

    async def test_the_largest_instants_of_a_key_read_back_exactly(self, driver: Driver) -> None:
        late = 8_991_234_567_890_123
        key = ApiKey(driver.new_id(), "n", "h", "d", "admin", None, late, late + 1, late + 2)
        await driver.write(Changes(api_keys=[key]))
        [row] = (await driver.read(GetApiKey("d"))).keys
        assert row.key == key
