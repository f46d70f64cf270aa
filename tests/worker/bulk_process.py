"""A process that works on bulk acts, in steps of one job, until it is killed."""

import asyncio
import sys

from ficha.worker import BulkRunner, bulk_runner, due_runner
from tests.support.shop import shop


async def main(url: str) -> None:
    bulk_runner.STEP_JOBS, bulk_runner.HOLD_S, due_runner.POLL_S = 1, 0.5, 0.1
    async with shop(url, sweep_by_itself=False) as app:
        await BulkRunner(app).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
