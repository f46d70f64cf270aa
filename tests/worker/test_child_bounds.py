"""What a handler's process gets and may do: a few environment variables, the calls of its own job, bounded messages."""

import inspect
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ficha.operations import LeaseOperations
from ficha.operations.files import FileOperations
from ficha.store.base import StoreError
from ficha.store.connect import store_for
from ficha.worker.child_main import ENVELOPE_BYTES, VERBS
from ficha.worker.child_start import environment_for
from ficha.worker.process_pool import ProcessPool
from tests.worker import handlers
from tests.worker.child_runs import LeaseWriter, a_run, children

MESSAGE_BYTES = 20_000
VALUE_BYTES = MESSAGE_BYTES - ENVELOPE_BYTES


@pytest.fixture
async def processes() -> AsyncIterator[ProcessPool]:
    found = ProcessPool("w1", MESSAGE_BYTES)
    try:
        yield found
    finally:
        await found.close()
        assert children() == []


def test_a_child_gets_the_variables_that_it_needs_and_those_that_are_named() -> None:
    system = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "src", "CUDA_VISIBLE_DEVICES": "0", "TZ": "UTC"}
    more = {"MODEL_CACHE": "/m", "MODEL_KIND": "k", "MODELS": "x"}
    secrets = {"FICHA_DATABASE_URL": "x", "FICHA_SECRET": "x", "FICHA_TOKEN": "x", "STRIPE_KEY": "x", "PATHS": "x"}
    whole = system | more | secrets
    needed = system | {"FICHA_DATABASE_URL": "absent:"}
    assert environment_for((), whole) == needed
    assert environment_for(["MODEL_CACHE", "ABSENT"], whole) == needed | {"MODEL_CACHE": "/m"}
    assert environment_for(["MODEL_*"], whole) == needed | {"MODEL_CACHE": "/m", "MODEL_KIND": "k"}
    assert environment_for(["*"], whole) == whole


async def test_no_secret_of_the_worker_is_anywhere_in_the_environment_of_a_child(
    processes: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FICHA_DATABASE_URL", "FICHA_SECRET", "STRIPE_KEY"):
        monkeypatch.setenv(name, f"canary {name}")
    monkeypatch.setenv("MODEL_CACHE", "/models")
    environment, started_with = await processes.call(
        a_run(handlers.tries, act="environment", environment_=["MODEL_CACHE"])
    )
    assert "canary" not in str(environment) + str(started_with)
    assert "MODEL_CACHE=/models" in started_with
    assert environment["MODEL_CACHE"] == "/models"
    assert environment["PATH"]


def test_an_application_that_is_opened_where_there_is_no_database_says_what_to_do() -> None:
    with pytest.raises(StoreError, match="name FICHA_DATABASE_URL in its tool's `environment`"):
        store_for(environment_for((), {})["FICHA_DATABASE_URL"])


def test_the_verbs_of_a_child_are_operations_on_a_lease() -> None:
    """Each takes the lease, or its job, first: the worker gives it, and no child can name another."""
    for verb in VERBS:
        owner = LeaseOperations if hasattr(LeaseOperations, verb) else FileOperations
        assert list(inspect.signature(getattr(owner, verb)).parameters)[1] in ("lease", "job_id"), verb


async def test_a_child_calls_what_a_job_offers_and_nothing_else_in_messages_of_a_bounded_length(
    processes: ProcessPool, caplog: pytest.LogCaptureFixture
) -> None:
    """One child, since each costs a second to start."""
    desk = LeaseWriter()

    async def tried(act: str, size: int = 0) -> Any:
        return await processes.call(a_run(handlers.tries, desk, act=act, size=size))

    for verb in ("finish", "open_account", "__class__"):
        failure = await tried(verb)
        assert failure.error == "a handler's process may not call this; nothing was changed."
    assert desk.heard == []

    assert await tried("result", VALUE_BYTES - 2) == "x" * (VALUE_BYTES - 2)
    failure = await tried("result", VALUE_BYTES - 1)
    assert failure.final
    assert f"the result is {VALUE_BYTES + 1} bytes of JSON, more than the {VALUE_BYTES} allowed" in failure.error
    around = len('[["s",""],{}]')
    assert await tried("step", VALUE_BYTES - around) == VALUE_BYTES - around
    failure = await tried("step", VALUE_BYTES - around + 1)
    assert f"{VALUE_BYTES + 1} bytes of JSON, more than the {VALUE_BYTES} allowed" in failure.error
    with caplog.at_level(logging.WARNING):
        assert await tried("log", 100) == "log"
        assert await tried("log", MESSAGE_BYTES) == "log"
    own = [record for record in caplog.records if record.name == "shop.handlers"]
    assert [record.getMessage()[:30] for record in own] == ["x" * 30, "a log line of " + own[1].getMessage()[14:30]]
    assert "is too long to be passed on" in own[1].getMessage()
    assert len(children()) == 1

    # What no handler sends by the calls of its job ends its process.
    failure = await tried("frame", MESSAGE_BYTES + 1)
    assert failure.final
    said = f"it sent a message of {MESSAGE_BYTES + 1} bytes; at most {MESSAGE_BYTES} are read"
    assert failure.error == f"the job's process was killed: {said}"
    assert children() == []


@pytest.mark.parametrize(
    "text",
    ['{"type": "RunEnded", "value": 1, "kind": "Failure"}', '{"type": "LogLine", "fields": {"name": 5}}'],
    ids=["no failure", "no log line"],
)
async def test_a_child_that_sends_what_is_no_message_is_killed(processes: ProcessPool, text: str) -> None:
    failure = await processes.call(a_run(handlers.tries, act=text))
    assert failure.error == "the job's process was killed: it sent what is no message of a handler's process"
