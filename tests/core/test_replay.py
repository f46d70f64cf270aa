"""A saved batch can be read back, and deciding it again gives the same bytes."""

import msgspec
from hypothesis import given

from ficha.core.commands import AnyCommand
from ficha.core.decide import decide
from ficha.core.snapshot import Snapshot
from tests.core.strategies import POLICY, START_AT, Story, stories
from tests.core.world import World


@given(stories())
def test_a_saved_batch_decided_again_gives_the_same_bytes(story: Story) -> None:
    world = World(POLICY, now=START_AT)
    for step, batch in story:
        world.now += step
        outcomes = world.run(*batch)
        saved = msgspec.msgpack.encode((world.snapshot, batch))
        snapshot, commands = msgspec.msgpack.decode(saved, type=tuple[Snapshot, list[AnyCommand]])
        assert commands == list(batch)
        again = decide(snapshot, commands, POLICY)
        assert msgspec.msgpack.encode(again) == msgspec.msgpack.encode((world.changes, outcomes))
