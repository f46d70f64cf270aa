"""The guides to transactions and to synchronous code: their examples are files of one program, and do what they say."""

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


FLASK = """
from shop import ficha
from web import web

ficha.open_account("ana", credits=7)
client = web.test_client()
made = client.post("/orders", json={"account": "ana", "image": "cat.png"}).json
ficha.run_worker(burst=True)
print(made["position"], client.get(f"/orders/{made['job']}").json)
refused = client.post("/orders", json={"account": "ana", "image": "cat.png"})
print(refused.status_code, refused.json["code"])
"""

DJANGO = """
import sys
import django
from django.conf import settings
from django.db import connection, transaction
from django.urls import path
from django.test import Client

host, name = sys.argv[1:]
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": "postgres", "HOST": host}},
    INSTALLED_APPS=["orders"], ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()
from orders.models import Order
from orders.views import order
from shop import ficha
from ficha import InsufficientCredits

urlpatterns = [path("orders", order)]
with connection.schema_editor() as editor:
    editor.create_model(Order)
ficha.open_account("ana", credits=7)
made = Client().post("/orders", {"account": "ana", "image": "cat.png"}).json()
print(made["position"], Order.objects.count(), ficha.account("ana").balance)
try:
    Client().post("/orders", {"account": "ana", "image": "cat.png"})
except InsufficientCredits as refused:
    print(refused.code, Order.objects.count())
try:
    ficha.grant("ana", 1, connection=connection)
except Exception as refused:
    print(refused)
connection.close()
"""


def test_the_example_of_flask_runs(tmp_path: Path) -> None:
    write_examples("synchronous.md", tmp_path)
    told = run(FLASK, tmp_path, f"sqlite:///{tmp_path / 'ficha.db'}")
    assert told == "1 {'result': {'image': 'cat.png x2'}, 'status': 'completed'}\n409 INSUFFICIENT_CREDITS\n"


def test_the_example_of_django_runs(tmp_path: Path, postgres_url: str) -> None:
    write_examples("synchronous.md", tmp_path)
    (tmp_path / "orders" / "models.py").write_text(
        "from django.db import models\nclass Order(models.Model):\n    image = models.TextField()\n"
    )
    asyncio.run(PostgresStore(postgres_url).migrate())
    found = re.match(r"postgresql://postgres@/(\w+)\?host=(.*)", postgres_url)
    told = run(DJANGO, tmp_path, postgres_url, found[2], found[1]).splitlines()
    assert told[:2] == ["1 1 2", "INSUFFICIENT_CREDITS 1"]
    assert "begin one" in told[2]
