"""Hooks are owed whoever commits a job's end: also a process that does not declare them."""

import asyncio
import signal
from pathlib import Path

import pytest

from ficha import Ficha, InvalidState, JobView, NotFound
from ficha.engine import hook_keeper, queries
from tests.support import processes
from tests.support.shop import World, shop
from tests.support.waiting import until

pytestmark = pytest.mark.long_on("postgresql")

ROLES = """
import asyncio, os, signal, sys
from ficha import Ficha
from ficha.worker import hook_runner

hook_runner.GRACE_S = 0.0
url, called, role = sys.argv[1:]
app = Ficha(url)

@app.tool()
async def work(job) -> None: ...

if role != "bare":
    @app.on("completed", timeout=0.2)
    def told(job) -> None:
        with open(called, "a") as file:
            file.write(job.id + "\\n")
        if role == "dies":
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with app:
        if role == "submits":
            await app.open_account("ana")
            await app.submit("work", {}, account="ana")
        elif role == "bare":
            await app.run_worker(burst=True)
        else:
            while await app.hooks():
                await app.run_worker(burst=True)

asyncio.run(main())
"""


async def run(role: str, url: str, called: Path) -> int:
    done = await asyncio.to_thread(processes.run, "tests.support.program", ROLES, url, str(called), role)
    return done.returncode


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_a_worker_without_the_module_ends_the_job_and_one_with_it_runs_the_hook(url: str, tmp_path: Path) -> None:
    called = tmp_path / "called"
    assert await run("submits", url, called) == 0
    assert await run("bare", url, called) == 0
    async with Ficha(url) as app:
        [owed] = await app.hooks()
        assert (owed.hook, owed.attempts) == ("told", 0)
        assert (await app.job(owed.job_id)).status == "completed"
    assert await run("dies", url, called) == -signal.SIGKILL
    assert await run("lives", url, called) == 0
    assert called.read_text().split() == [owed.job_id] * 2
    assert await run("lives", url, called) == 0
    assert len(called.read_text().split()) == 2


def telling(app: Ficha, *ends: str, told: list[str] | None = None, tool: str | None = None) -> Ficha:
    @app.on(*ends, tool=tool)  # type: ignore[arg-type]
    async def tell(job: JobView) -> None:
        if told is not None:
            told.append(job.id)

    return app


async def cancelled(app: Ficha) -> str:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    await app.cancel(job_id)
    return job_id


async def owed(app: Ficha) -> list[tuple[str, str]]:
    return [(hook.hook, hook.job_id) for hook in await app.hooks()]


async def states(app: Ficha) -> dict[str, tuple[str, int]]:
    return {hook.name: (hook.state, hook.owed) for hook in await app.declared_hooks()}


async def test_a_process_that_ran_before_a_hook_was_declared_owes_it_too(url: str) -> None:
    if url == "memory:":
        return
    async with shop(url) as older:
        await older.open_account("ana", plan="open", credits=100)
        await cancelled(older)
        async with telling(shop(url)):
            await until(lambda: [terms.name for terms in older.engine.policy.hooks] == ["tell"])
            job_id = await cancelled(older)
        assert await owed(older) == [("tell", job_id)]


async def test_without_hints_a_process_learns_of_a_hook_at_its_next_look(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url == "memory:":
        return
    monkeypatch.setattr(hook_keeper, "LOOK_S", 0.05)
    monkeypatch.setattr(hook_keeper, "LOOKS_APART_S", 0.0)
    async with shop(url).separate_operations() as deaf:
        await deaf.open_account("ana", plan="open", credits=100)
        async with telling(shop(url)):
            await until(lambda: [terms.name for terms in deaf.engine.policy.hooks] == ["tell"])


async def test_a_process_ends_jobs_by_its_own_declaration_and_the_last_start_counts_elsewhere(world: World) -> None:
    bare = await world.open()
    await bare.open_account("ana", plan="open", credits=100)
    first = await world.open(prepare=lambda app: telling(app, "failed"))
    await world.open(prepare=lambda app: telling(app, "cancelled"))
    await first.engine.hooks._look()
    await cancelled(first)
    assert await owed(bare) == []
    await bare.engine.hooks._look()
    job_id = await cancelled(bare)
    assert await owed(bare) == [("tell", job_id)]


async def test_a_hook_of_one_tool_is_owed_for_its_jobs_alone(world: World) -> None:
    await world.open(prepare=lambda app: telling(app, tool="video"))
    bare = await world.open()
    await bare.open_account("ana", plan="open", credits=100)
    await cancelled(bare)
    assert await owed(bare) == []
    await bare.cancel(job_id := (await bare.submit("video", {}, account="ana")).job_id)
    assert await owed(bare) == [("tell", job_id)]


async def test_states_of_a_hook_from_its_declaration_until_it_is_forgotten(world: World) -> None:
    told: list[str] = []
    declaring = await world.open(prepare=lambda app: telling(app, told=told))
    bare = await world.open()
    await bare.open_account("ana", plan="open", credits=100)
    job_id = await cancelled(bare)
    assert await states(bare) == {"tell": ("declared", 1)}
    await bare.run_worker(burst=True)
    assert told == []
    await declaring.run_worker(burst=True)
    assert (told, await states(bare)) == ([job_id], {"tell": ("run", 0)})
    with pytest.raises(InvalidState, match="a running process declares the hook tell"):
        await bare.forget_hook("tell")
    await declaring.close()
    world.clock.advance(180)
    for _ in range(3):
        await cancelled(bare)
    assert await states(bare) == {"tell": ("gone", 3)}
    assert await bare.acting("boss").forget_hook("tell") == 3
    assert (await states(bare), await bare.hooks()) == ({}, [])
    await bare.engine.hooks._look()
    await cancelled(bare)
    assert await bare.hooks() == []
    [line, *_] = (await bare.audit()).items
    assert (line.actor, line.act, line.target) == ("boss", "forget_hook", "hook tell")
    with pytest.raises(NotFound, match="there is no hook 'tell'"):
        await bare.forget_hook("tell")


async def test_a_hook_is_owed_for_its_time_after_the_last_process_that_declared_it(world: World) -> None:
    declaring = await world.open(prepare=telling)
    bare = await world.open(hooks_kept_s=1_000)
    await bare.open_account("ana", plan="open", credits=100)
    await declaring.close()
    world.clock.advance(999.999999)
    await bare.engine.hooks._look()
    await cancelled(bare)
    assert await states(bare) == {"tell": ("gone", 1)}
    world.clock.advance(0.000001)
    await bare.engine.hooks._look()
    assert (await states(bare), await bare.hooks()) == ({}, [])
    await bare.engine.hooks._look()
    await cancelled(bare)
    assert await bare.hooks() == []
    assert [(line.actor, line.act) for line in (await bare.audit(target="hook tell")).items] == [
        ("system", "forget_hook")
    ]


async def test_a_process_that_declares_a_forgotten_hook_declares_it_again(world: World) -> None:
    declaring = await world.open(prepare=telling)
    bare = await world.open()
    world.clock.advance(180)
    await bare.forget_hook("tell")
    await declaring.engine.hooks._look()
    assert await states(bare) == {"tell": ("declared", 0)}


async def test_the_overview_names_hooks_that_are_late_and_that_no_live_worker_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "OVERVIEW_S", -1.0)
    declaring = await world.open(prepare=telling)
    bare = await world.open()
    await bare.open_account("ana", plan="open", credits=100)
    await cancelled(bare)
    world.clock.advance(299)

    async def found() -> list[str]:
        return [alert.text for alert in (await bare.overview("1h")).alerts if alert.code == "HOOKS_NOT_RUN"]

    assert await found() == []
    world.clock.advance(1)
    [text] = await found()
    assert text.startswith("No live worker runs the hook tell, and calls have been due for 5 minutes.")
    await declaring.run_worker(burst=True)
    await cancelled(bare)
    assert await found() == []
