"""A process that grants one credit per commit group and says each that is kept: FILE COUNT NAME [PAGES].

The tests of the SQLite store start several at once, and kill them. With PAGES the journal is moved as often as that.
"""

import asyncio
import sys
from functools import partial
from uuid import uuid4

from ficha.core.commands import Credit
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.core.policy import Plan, Policy
from ficha.core.snapshot import Snapshot
from ficha.store.base import Decision
from ficha.store.sqlite import SqliteStore, wal


def grant(group: list[Credit], snapshot: Snapshot) -> Decision:
    return decide(snapshot, group, Policy(plans={"pro": Plan("pro")}))


async def main(path: str, count: int, name: str) -> None:
    store = SqliteStore(path)
    await store.open()
    committer = str(uuid4())
    for number in range(1, count + 1):
        group = [Credit("ana", 1, "grant", key=f"{name}-{number}")]
        await store.transact(committer, number, needs(group), partial(grant, group))
        print(f"{name}-{number}", flush=True)
    await store.close()


if __name__ == "__main__":
    if sys.argv[4:]:
        wal.CHECKPOINT_PAGES = int(sys.argv[4])
        wal.LONG_PAGES = 3 * wal.CHECKPOINT_PAGES
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
