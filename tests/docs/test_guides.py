"""The guide to transactions: its examples are files of one program, and do what it says."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from ficha.store.postgres import PostgresStore

DOCS = Path(__file__).parents[2] / "docs"


def write_examples(page: str, folder: Path) -> None:
    """Writes each example to the file that its first line names."""
    for example in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        path = folder / re.match(r"# (\S+\.py)\n", example)[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(example)


def run(program: str, folder: Path, database: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder, env={"FICHA_DATABASE_URL": database, "PYTHONPATH": str(folder)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


TRANSACTIONS = """
import asyncio, sys
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from orders import app, order, paid
from test_orders import check_order

async def main():
    engine = create_async_engine(sys.argv[1])
    async with AsyncSession(engine) as session:
        await session.execute(text("CREATE TABLE orders (account text, image text)"))
        await session.execute(text("CREATE TABLE payments (id text)"))
        await session.commit()
        if "memory" in app.database:
            await check_order(session)
        else:
            async with app:
                await app.open_account("ana")
                await paid(session, "ana", 10, "payment-1")
                job_id = await order(session, "ana", "cat.png")
                await app.run_worker(burst=True)
                print((await app.account("ana")).balance, (await app.job(job_id)).result)
        print((await session.execute(text("SELECT count(*) FROM orders"))).scalar_one())
    await engine.dispose()

asyncio.run(main())
"""


def test_the_examples_of_the_guide_to_transactions_run(tmp_path: Path, postgres_url: str) -> None:
    write_examples("transactions.md", tmp_path)
    asyncio.run(PostgresStore(postgres_url).migrate())
    own = postgres_url.replace("postgresql://", "postgresql+asyncpg://")
    assert run(TRANSACTIONS, tmp_path, postgres_url, own) == "5 {'image': 'cat.png x2'}\n1\n"
    assert run(TRANSACTIONS, tmp_path, "memory:", f"sqlite+aiosqlite:///{tmp_path / 'own.db'}") == "1\n"
