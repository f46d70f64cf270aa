"""A saved commit group can be read back, and deciding it again gives the same bytes."""

import msgspec
from hypothesis import given

from ficha.core.commands import AnyCommand
from ficha.core.decide import decide
from ficha.core.snapshot import Snapshot
from tests.core.strategies import POLICY, START_AT, Workload, workloads
from tests.core.world import World


@given(workloads(prunes=True))
def test_a_saved_commit_group_decided_again_gives_the_same_bytes(workload: Workload) -> None:
    world = World(POLICY, now=START_AT)
    for step, group in workload:
        world.now += step
        outcomes = world.run(*group)
        saved = msgspec.msgpack.encode((world.snapshot, group))
        snapshot, commands = msgspec.msgpack.decode(saved, type=tuple[Snapshot, list[AnyCommand]])
        assert commands == list(group)
        again = decide(snapshot, commands, POLICY)
        assert msgspec.msgpack.encode(again) == msgspec.msgpack.encode((world.changes, outcomes))
