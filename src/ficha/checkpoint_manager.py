"""`CheckpointManager`: a job's checkpoints for existing code that runs elsewhere, such as a Celery task.

What must stay out: anything that a Ficha worker does. Here other code decides when the job runs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from .app import Ficha
from .core.states import FINAL
from .engine.views import FinishView, JobView, Lease
from .errors import InvalidState, Refused
from .job_log import fields_of
from .operations import LeaseOperations
from .worker.context import JobContext, ThreadJobContext
from .worker.lease_writer import LeaseWriter
from .worker.registration import worker_name
from .worker.results import FinalError, is_for_owner
from .worker.run import facts_of
from .worker.steps import refusing_unstorable

log = logging.getLogger("ficha.checkpoint_manager")

T = TypeVar("T")

RETRY_S: Final = 0.5
"""The pause between two tries of `start(wait_s=…)` to claim the job."""


class CheckpointManager:
    """Holds one job, from `start` to `complete` or `fail`, and renews its lease meanwhile. Its calls block.

        with CheckpointManager(app, job_id) as manager:
            manager.start()
            if not manager.can_resume:
                ...
                manager.save_checkpoint("DOWNLOADED", progress=30, data={"file": path})
            ...
            manager.complete({"image": url})

    An exception that leaves the block fails the job, a `FinalError` for good; a block that ends with the job neither
    completed nor failed hands it back.

    app: the application; its tools and settings are used, over a separate connection.
    worker: the name of the lease's owner. Defaults to WORKER_ID, then to the host's name and the process id.
    """

    def __init__(self, app: Ficha, job_id: str, *, worker: str | None = None) -> None:
        self._app = app
        self._job_id = job_id
        self._worker = worker_name(worker)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._operations: LeaseOperations | None = None
        self._stop: asyncio.Event | None = None
        self._lease: Lease | None = None
        self._job: ThreadJobContext | None = None
        self._writer: LeaseWriter | None = None
        self._has_ended = False

    # The job

    @property
    def job(self) -> ThreadJobContext:
        """The job as a handler sees it: its payload, and steps, items, progress, partial results and log lines."""
        if self._job is None:
            raise RuntimeError("the job was not started; call start() first")
        return self._job

    @property
    def can_resume(self) -> bool:
        """Whether an earlier run saved a checkpoint to resume from."""
        return self.resume_point is not None

    @property
    def resume_point(self) -> str | None:
        """The last saved checkpoint, of this run or an earlier one."""
        return self._call(self._view()).checkpoint

    @property
    def resume_data(self) -> Any:
        """The data saved with that checkpoint."""
        return self._call(self._view()).resume_data

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled or its lease lost: the code should stop, and can write nothing more."""
        return self._job is not None and self._job.cancelled

    # What the code calls

    def start(self, *, wait_s: float = 0.0) -> Self:
        """Claims and starts the job.

        While the job cannot be claimed, this retries for `wait_s` and is then refused: another process holds the job,
        perhaps one that died and whose lease has not expired; its account is at its plan's limit; or it is not due.
        """
        until = time.monotonic() + wait_s
        while True:
            try:
                self._lease = self._call(self._claim())
                break
            except InvalidState as refused:
                if refused.details.get("status") in FINAL or time.monotonic() >= until:
                    raise
                time.sleep(RETRY_S)
        return self

    def save_checkpoint(self, name: str, *, progress: int = 0, data: Any = None) -> None:
        """Stores in one write where the job can resume, and with which data. Renews the lease too."""
        self.job.checkpoint(name, progress=progress, data=data)

    def heartbeat(self) -> None:
        """Renews the lease now; raises LeaseLost if it is lost. The lease is renewed in the background anyway."""
        (answer,) = self._call(self._open_operations().heartbeat(self._held_lease()))
        if isinstance(answer, Refused):
            self.job.stop()
            raise answer

    def complete(self, result: Any = None, *, delivered: int | None = None, of: int | None = None) -> FinishView:
        """Completes the job. With `delivered` of `of`, what was not delivered is refunded."""
        with refusing_unstorable("the result"):
            return self._end(self._open_operations().finish(self._held_lease(), result, delivered=delivered, of=of))

    def fail(self, error: str, *, final: bool = False, for_user: bool = False) -> FinishView:
        """Fails the job: it is retried while the tool has attempts left (unless `final`), else refunded. Its owner sees
        `error` only if it is written `for_user`."""
        failing = self._open_operations().fail(self._held_lease(), error, final=final, for_user=for_user)
        return self._end(failing)

    # Opening and closing

    def __enter__(self) -> Self:
        ready: threading.Event = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self._run_loop(ready))
            except BaseException as error:
                errors.append(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=run, name="ficha manager", daemon=True)
        self._thread.start()
        ready.wait()
        if errors:
            raise errors[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._lease is not None and not self._has_ended:
                if isinstance(error, Exception):
                    self.fail(
                        str(error) or type(error).__name__,
                        final=isinstance(error, FinalError),
                        for_user=is_for_owner(error),
                    )
                else:
                    self._end(self._open_operations().hand_back(self._lease, "left without complete() or fail()"))
        except Refused as refused:
            log.info("job %s: %s", self._job_id, refused, extra=self._log_fields())
        finally:
            assert self._loop is not None
            assert self._stop is not None
            assert self._thread is not None
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop = None

    def _log_fields(self) -> dict[str, Any]:
        return fields_of(self._job_id) if self._job is None else self._job.log_fields()

    async def _run_loop(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._app.separate_operations() as self._operations:
            ready.set()
            while not self._stop.is_set():
                try:
                    async with asyncio.timeout(self._app.heartbeat_s):
                        await self._stop.wait()
                except TimeoutError:
                    await self._renew()

    async def _renew(self) -> None:
        if self._lease is None or self._has_ended or self._operations is None or self._job is None:
            return
        try:
            (answer,) = await self._operations.heartbeat(self._lease)
        except Exception as error:
            log.warning("job %s: no heartbeat: %s", self._job_id, error, extra=self._log_fields())
            return
        if isinstance(answer, Refused) and not answer.retryable:
            self._job.stop()

    async def _view(self) -> JobView:
        operations = self._open_operations()
        view = await operations.queries.job(self._job_id)
        if view is None:
            raise RuntimeError(f"there is no job {self._job_id}")
        return view

    async def _claim(self) -> Lease:
        operations = self._open_operations()
        lease = await operations.claim_job(self._job_id, worker=self._worker)
        self._writer = LeaseWriter(operations, lease)
        self._job = ThreadJobContext(JobContext(facts_of(lease), self._writer), asyncio.get_running_loop())
        return lease

    def _open_operations(self) -> LeaseOperations:
        if self._operations is None or self._loop is None:
            raise RuntimeError("the manager is not open; use `with CheckpointManager(...) as manager:`")
        return self._operations

    def _held_lease(self) -> Lease:
        if self._lease is None:
            raise RuntimeError("the job was not started; call start() first")
        return self._lease

    def _end(self, coroutine: Coroutine[Any, Any, FinishView]) -> FinishView:
        if self._writer is not None and self._writer.left_out:
            self._call(self._writer.tell_left_out())
        finished = self._call(coroutine)
        self._has_ended = True
        return finished

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("the manager is not open; use `with CheckpointManager(...) as manager:`")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
