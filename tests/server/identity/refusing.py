"""What every refusal of a credential has to be, and waiting for what goes on in the background."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from ficha.errors import Refused
from ficha.server.identity import Caller, Identity

PEER = "192.0.2.1"


async def shown(identity: Identity, text: str, *, peer: str = PEER) -> Caller:
    """The caller, without the time at which the credential expires."""
    return replace(await identity.caller(f"Bearer {text}", peer=peer), expires_at=None)


async def refusal(identity: Identity, text: str, *, peer: str = PEER) -> Refused:
    """Why it is refused, as it must be: with the one code, and with nothing of the text in the words."""
    with pytest.raises(Refused) as caught:
        await shown(identity, text, peer=peer)
    assert caught.value.code == "UNAUTHENTICATED"
    assert (caught.value.details, caught.value.retryable) == ({}, False)
    for part in text.split("."):
        assert len(part) < 12 or part not in caught.value.message
    return caught.value


async def background(name: str) -> None:
    """Returns once the tasks of that name have ended."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == name]
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks, return_exceptions=True)
