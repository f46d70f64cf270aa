"""The life of a few paid jobs, on an embedded database: submit, claim, fail, refund, resume, and the ledger of it all.

Run it with `make demo`. It needs nothing but this folder, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ficha import Ficha, InsufficientCredits, Plan, Pool

out = Console(highlight=False, soft_wrap=True)


async def demo(database: str) -> None:
    app = Ficha(
        database,
        plans=[Plan("free", priority=50, max_running=1, per_hour=10), Plan("pro", priority=10, max_running=4)],
        pools=[Pool("gpu", slots=3)],
        lease_s=0.5,
    )
    paid_calls: list[str] = []

    async def call_paid_api(prompt: str) -> str:
        paid_calls.append(prompt)
        return f"a picture of {prompt}"

    @app.tool(pool="gpu", cost=5)
    async def generate(job: Any, prompt: str) -> dict[str, str]:
        picture = await job.step("call the provider", call_paid_api, prompt)
        await job.checkpoint("GENERATED", progress=80)
        return {"picture": picture}

    @app.tool(pool="gpu", cost=3)
    async def upscale(job: Any, picture: str, scale: int = 2) -> dict[str, str]:
        raise RuntimeError(f"the provider cannot scale {picture!r} by {scale}")

    async with app:
        say("Ana opens an account on the free plan with 20 credits.")
        await app.open_account("ana", plan="free", credits=20)

        say("She submits a job. Her browser sends it twice; she pays once.")
        first = await app.submit("generate", {"prompt": "a lighthouse"}, account="ana", idempotency_key="click-1")
        again = await app.submit("generate", {"prompt": "a lighthouse"}, account="ana", idempotency_key="click-1")
        fact(f"position {first.position}, balance {first.new_balance}; the repeat is known: {again.idempotent_hit}")

        say("A worker claims it, makes the paid call, and dies before it can finish.")
        [lease] = await app.claim("gpu", worker="worker-1")
        await app.start(lease)
        await app.save_step(lease, "call the provider", await call_paid_api("a lighthouse"))
        fact(f"the job is {(await app.job(first.job_id)).status}, held by {lease.worker}")

        say("Its lease runs out. The clean-up, which runs by itself, returns the job to the queue.")
        await app.wait_for_work("gpu", timeout_s=10)
        job = await app.job(first.job_id)
        fact(f"recoveries: {job.recoveries}, position {job.position}")

        say("Another worker resumes it: the paid call is not made again.")
        await app.run_worker(["gpu"], worker="worker-2", burst=True)
        job = await app.job(first.job_id)
        fact(f"{job.status}: {job.result}; paid calls made: {len(paid_calls)}")

        say("The first worker wakes up and tries to finish the job it lost.")
        try:
            await app.finish(lease, {"picture": "an old one"})
        except Exception as error:
            fact(f"refused: {error}")

        say("Ana tries to upscale the picture. The provider fails, and her credits come back by themselves.")
        second = await app.submit("upscale", {"picture": "lighthouse.png"}, account="ana")
        await app.run_worker(["gpu"], worker="worker-2", burst=True)
        job = await app.job(second.job_id)
        fact(f"{job.status}: {job.error}; charged {job.charged}, refunded {job.refunded}")

        say("She cancels a third job while it waits; and a fourth would cost more than she has.")
        third = await app.submit("generate", {"prompt": "a storm"}, account="ana")
        await app.cancel(third.job_id, reason="changed her mind")
        await app.adjust("ana", -12, reason="gift to a friend")
        try:
            await app.submit("generate", {"prompt": "a shipwreck"}, account="ana")
        except InsufficientCredits as error:
            fact(f"refused: {error}")

        await show_ledger(app)
        await show_history(app, first.job_id)
        found = await app.verify()
        say(f"Every invariant holds: {not found}.")
        if found:
            raise SystemExit("\n".join(found))


def say(text: str) -> None:
    out.print(f"\n[bold]{text}[/]")


def fact(text: str) -> None:
    out.print(f"   {text}", markup=False)


async def show_ledger(app: Ficha) -> None:
    table = Table(title="\nAna's ledger", title_justify="left")
    for column in ("#", "kind", "amount", "balance", "why"):
        table.add_column(column, justify="right" if column in ("#", "amount", "balance") else "left")
    for entry in reversed((await app.ledger("ana")).items):
        why = entry.reason or f"job …{entry.job_id[-12:] if entry.job_id else ''}"
        table.add_row(str(entry.number), entry.kind, f"{entry.amount:+}", str(entry.balance_after), why)
    out.print(table)


async def show_history(app: Ficha, job_id: str) -> None:
    say("The first job's history:")
    for event in await app.events(job=job_id):
        fact(f"{event.at:%H:%M:%S.%f}  {event.kind:11} {event.data or ''}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(demo(f"sqlite:///{Path(folder) / 'demo.db'}"))
