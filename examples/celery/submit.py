"""Charges an account for a quote, which `on_work` sends to Celery; then waits for the result."""

import asyncio
import sys

from tasks import ficha

from ficha import NotFound


async def main(products: list[str]) -> None:
    async with ficha:
        try:
            await ficha.account("ana")
        except NotFound:
            await ficha.open_account("ana", credits=100)
        receipt = await ficha.submit("quote", {"products": products}, account="ana")
        print(f"{receipt.job_id}: {receipt.cost} credits, {receipt.new_balance} left")
        while (job := await ficha.job(receipt.job_id)).finished_at is None:  # noqa: ASYNC110 (it looks, now and then)
            await asyncio.sleep(0.1)
        print(job.status, job.result or job.error)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["lamp", "chair"]))
