"""`SyncFicha`: the operations as plain calls, for Django, Flask and scripts.

Each operation is one line here; its arguments, types and docstring are those of the `async def` that it names.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from .app import Ficha
from .engine.held_commands import HeldCommands
from .operations import AllOperations
from .store.callers import driver_connection

P = ParamSpec("P")
T = TypeVar("T")


def plain(operation: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The operation as a method that waits for its answer."""

    @wraps(operation)
    def call(face: SyncOperations, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if (connection := kwargs.get("connection")) is not None and not isinstance(connection, HeldCommands):
            kwargs["connection"] = driver_connection(connection)
        return face._wait_for(lambda operations: operation(operations, *args, **kwargs))

    return call


def iterated(
    operation: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
    """The operation as a plain iterator."""

    @wraps(operation)
    def iterate(face: SyncOperations, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        async def begin(operations: Any) -> AsyncGenerator[T, None]:
            return operation(operations, *args, **kwargs)

        source = face._wait_for(begin)
        try:
            while True:
                try:
                    yield face._wait_for(lambda _: anext(source))
                except StopAsyncIteration:
                    return
        finally:
            face._wait_for(lambda _: source.aclose())

    return iterate


class SyncOperations:
    """Every operation there is, as a plain call."""

    submit = plain(AllOperations.submit)
    submit_request = plain(AllOperations.submit_request)
    submit_many = plain(AllOperations.submit_many)
    submit_batch = plain(AllOperations.submit_batch)
    submit_batch_request = plain(AllOperations.submit_batch_request)
    quote = plain(AllOperations.quote)
    quote_request = plain(AllOperations.quote_request)
    job = plain(AllOperations.job)
    part = plain(AllOperations.part)
    job_by_ref = plain(AllOperations.job_by_ref)
    jobs = plain(AllOperations.jobs)
    library = plain(AllOperations.library)
    remove_work = plain(AllOperations.remove_work)
    wait = plain(AllOperations.wait)
    watch = iterated(AllOperations.watch)
    position = plain(AllOperations.position)
    events = plain(AllOperations.events)
    cancel = plain(AllOperations.cancel)
    reserve = plain(AllOperations.reserve)
    consume = plain(AllOperations.consume)
    release = plain(AllOperations.release)
    search_jobs = plain(AllOperations.search_jobs)
    count_jobs = plain(AllOperations.count_jobs)
    search_words = plain(AllOperations.search_words)
    job_page = plain(AllOperations.job_page)
    batch = plain(AllOperations.batch)
    batches = plain(AllOperations.batches)
    batch_results = iterated(AllOperations.batch_results)
    cancel_batch = plain(AllOperations.cancel_batch)
    resume_batch = plain(AllOperations.resume_batch)
    open_account = plain(AllOperations.open_account)
    change_plan = plain(AllOperations.change_plan)
    grant = plain(AllOperations.grant)
    adjust = plain(AllOperations.adjust)
    account = plain(AllOperations.account)
    accounts = plain(AllOperations.accounts)
    ledger = plain(AllOperations.ledger)
    erase = plain(AllOperations.erase)
    prune = plain(AllOperations.prune)
    prune_step = plain(AllOperations.prune_step)
    claim = plain(AllOperations.claim)
    claim_job = plain(AllOperations.claim_job)
    wait_for_work = plain(AllOperations.wait_for_work)
    wait_for_cancels = plain(AllOperations.wait_for_cancels)
    lost = plain(AllOperations.lost)
    register_worker = plain(AllOperations.register_worker)
    start = plain(AllOperations.start)
    heartbeat = plain(AllOperations.heartbeat)
    checkpoint = plain(AllOperations.checkpoint)
    save_step = plain(AllOperations.save_step)
    save_step_json = plain(AllOperations.save_step_json)
    report = plain(AllOperations.report)
    note = plain(AllOperations.note)
    keep_line = plain(AllOperations.keep_line)
    note_left_out = plain(AllOperations.note_left_out)
    steps = plain(AllOperations.steps)
    steps_json = plain(AllOperations.steps_json)
    finish = plain(AllOperations.finish)
    finish_many = plain(AllOperations.finish_many)
    finish_job = plain(AllOperations.finish_job)
    end_many = plain(AllOperations.end_many)
    fail = plain(AllOperations.fail)
    retry = plain(AllOperations.retry)
    accept = plain(AllOperations.accept)
    give_up = plain(AllOperations.give_up)
    time_out = plain(AllOperations.time_out)
    hand_back = plain(AllOperations.hand_back)
    upload = plain(AllOperations.upload)
    receive = plain(AllOperations.receive)
    begin_upload = plain(AllOperations.begin_upload)
    complete_upload = plain(AllOperations.complete_upload)
    file = plain(AllOperations.file)
    files = plain(AllOperations.files)
    job_files = plain(AllOperations.job_files)
    remove_file = plain(AllOperations.remove_file)
    file_link = plain(AllOperations.file_link)
    link_with = plain(AllOperations.link_with)
    read_file = iterated(AllOperations.read_file)
    stored_file = plain(AllOperations.stored_file)
    files_of = plain(AllOperations.files_of)
    open_file = plain(AllOperations.open_file)
    url_of = plain(AllOperations.url_of)
    save_file = plain(AllOperations.save_file)
    save_result = plain(AllOperations.save_result)
    keep_result = plain(AllOperations.keep_result)
    sweep_files = plain(AllOperations.sweep_files)
    hooks = plain(AllOperations.hooks)
    declared_hooks = plain(AllOperations.declared_hooks)
    forget_hook = plain(AllOperations.forget_hook)
    due_hooks = plain(AllOperations.due_hooks)
    hold_hook = plain(AllOperations.hold_hook)
    end_hook = plain(AllOperations.end_hook)
    wait_for_hooks = plain(AllOperations.wait_for_hooks)
    receive_callback = plain(AllOperations.receive_callback)
    kept_word = plain(AllOperations.kept_word)
    note_start = plain(AllOperations.note_start)
    open_start = plain(AllOperations.open_start)
    accepted_ref = plain(AllOperations.accepted_ref)
    queued_again_at = plain(AllOperations.queued_again_at)
    payload_of = plain(AllOperations.payload_of)
    due_polls = plain(AllOperations.due_polls)
    hold_poll = plain(AllOperations.hold_poll)
    end_poll = plain(AllOperations.end_poll)
    finish_awaiting = plain(AllOperations.finish_awaiting)
    wait_for_polls = plain(AllOperations.wait_for_polls)
    add_webhook = plain(AllOperations.add_webhook)
    webhooks = plain(AllOperations.webhooks)
    remove_webhook = plain(AllOperations.remove_webhook)
    enable_webhook = plain(AllOperations.enable_webhook)
    rotate_webhook_secret = plain(AllOperations.rotate_webhook_secret)
    test_webhook = plain(AllOperations.test_webhook)
    deliveries = plain(AllOperations.deliveries)
    resend_delivery = plain(AllOperations.resend_delivery)
    make_deliveries = plain(AllOperations.make_deliveries)
    due_deliveries = plain(AllOperations.due_deliveries)
    hold_delivery = plain(AllOperations.hold_delivery)
    end_delivery = plain(AllOperations.end_delivery)
    forget_old_deliveries = plain(AllOperations.forget_old_deliveries)
    wait_for_deliveries = plain(AllOperations.wait_for_deliveries)
    stay_in_session = plain(AllOperations.stay_in_session)
    leave_session = plain(AllOperations.leave_session)
    follow_in_session = plain(AllOperations.follow_in_session)
    sweep = plain(AllOperations.sweep)
    clear_up = plain(AllOperations.clear_up)
    recover = plain(AllOperations.recover)
    stuck = plain(AllOperations.stuck)
    dead_letters = plain(AllOperations.dead_letters)
    dead_groups = plain(AllOperations.dead_groups)
    requeue = plain(AllOperations.requeue)
    discard = plain(AllOperations.discard)
    refund = plain(AllOperations.refund)
    begin_bulk_act = plain(AllOperations.begin_bulk_act)
    bulk_acts = plain(AllOperations.bulk_acts)
    bulk_act = plain(AllOperations.bulk_act)
    stop_bulk_act = plain(AllOperations.stop_bulk_act)
    due_bulk_acts = plain(AllOperations.due_bulk_acts)
    hold_bulk_act = plain(AllOperations.hold_bulk_act)
    next_bulk_jobs = plain(AllOperations.next_bulk_jobs)
    advance_bulk_act = plain(AllOperations.advance_bulk_act)
    wait_for_bulk_acts = plain(AllOperations.wait_for_bulk_acts)
    schedules = plain(AllOperations.schedules)
    pause_schedule = plain(AllOperations.pause_schedule)
    resume_schedule = plain(AllOperations.resume_schedule)
    run_schedule = plain(AllOperations.run_schedule)
    pools = plain(AllOperations.pools)
    queue_length = plain(AllOperations.queue_length)
    queue_depth = plain(AllOperations.queue_depth)
    pause_pool = plain(AllOperations.pause_pool)
    resume_pool = plain(AllOperations.resume_pool)
    resize_pool = plain(AllOperations.resize_pool)
    brakes = plain(AllOperations.brakes)
    pause_tool = plain(AllOperations.pause_tool)
    resume_tool = plain(AllOperations.resume_tool)
    close_tool = plain(AllOperations.close_tool)
    open_tool = plain(AllOperations.open_tool)
    close_pool = plain(AllOperations.close_pool)
    open_pool = plain(AllOperations.open_pool)
    provider_states = plain(AllOperations.provider_states)
    open_breaker = plain(AllOperations.open_breaker)
    reset_breaker = plain(AllOperations.reset_breaker)
    margins = plain(AllOperations.margins)
    workers = plain(AllOperations.workers)
    recount = plain(AllOperations.recount)
    stats = plain(AllOperations.stats)
    overview = plain(AllOperations.overview)
    reservations = plain(AllOperations.reservations)
    count_reservations = plain(AllOperations.count_reservations)
    idempotency_keys = plain(AllOperations.idempotency_keys)
    audit = plain(AllOperations.audit)
    verify = plain(AllOperations.verify)
    note_verification = plain(AllOperations.note_verification)
    create_api_key = plain(AllOperations.create_api_key)
    api_keys = plain(AllOperations.api_keys)
    revoke_api_key = plain(AllOperations.revoke_api_key)
    api_key = plain(AllOperations.api_key)
    use_api_key = plain(AllOperations.use_api_key)

    def acting(self, actor: str) -> SyncOperations:
        """The same operations in an actor's name: every change writes a line of the audit log."""
        return _Acting(self, actor)

    def _wait_for(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Waits for a call of the operations, which run on another thread; returns its answer."""
        raise NotImplementedError


class _Acting(SyncOperations):
    def __init__(self, face: SyncOperations, actor: str) -> None:
        self._face = face
        self._actor = actor

    def _wait_for(self, call: Callable[[Any], Awaitable[T]]) -> T:
        return self._face._wait_for(lambda operations: call(operations.acting(self._actor)))


class SyncFicha(SyncOperations):
    """An application for synchronous code: every operation of `Ficha`, by the same name, as a plain call.

        app = Ficha("postgresql://…", plans=[…])
        ficha = SyncFicha(app)
        receipt = ficha.submit("upscale", {"image": "x"}, account="ana")

    The first call opens it: an event loop on a thread of its own, with its own connections, whether `app` is open or
    not. After a fork the child's first call opens its own, so the object can be made before a server forks its workers.
    It may be used by many threads at once. `close`, or the end of a `with`, closes it; so does the end of the process.

    app: the application, with its tools.
    """

    def __init__(self, app: Ficha) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._opened: _OpenApplication | None = None
        self._finalizer: weakref.finalize[[], SyncFicha] | None = None
        _FACES.add(self)

    run_worker = plain(Ficha.run_worker)

    def open(self) -> Self:
        """Connects to the database now; otherwise the first call does."""
        self._open()
        return self

    def close(self) -> None:
        """Answers or refuses every call under way, then closes the connections. A later call opens it again."""
        _refuse_event_loop()
        with self._lock:
            opened, self._opened = self._opened, None
            if self._finalizer is not None:
                self._finalizer.detach()
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for(self, call: Callable[[Any], Awaitable[T]]) -> T:
        return self._open().wait_for(call)

    def _open(self) -> _OpenApplication:
        _refuse_event_loop()
        with self._lock:
            if self._opened is None:
                self._opened = _OpenApplication(self._app.unopened())
                self._finalizer = weakref.finalize(self, self._opened.close)
            return self._opened

    def _after_fork(self) -> None:
        """In the child: the parent's thread is not there, and its connections must not be touched."""
        self._lock = threading.Lock()
        if self._opened is not None:
            _keep_for_ever(self._opened)
            self._opened = None


class _OpenApplication:
    """An application, open on an event loop on a thread of its own."""

    def __init__(self, app: Ficha) -> None:
        self._app = app
        self._pid = os.getpid()
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="ficha sync", daemon=True)
        self._thread.start()
        self._loop, self._stop = self._ready.result()

    def wait_for(self, call: Callable[[Any], Awaitable[T]]) -> T:
        async def answered() -> T:
            return await call(self._app)

        future = asyncio.run_coroutine_threadsafe(answered(), self._loop)
        try:
            return future.result()
        except BaseException:
            # The waiting thread was interrupted, for example by Ctrl-C.
            future.cancel()
            raise

    def close(self) -> None:
        if os.getpid() == self._pid and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._serve(loop))
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            loop.close()

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        async with self._app:
            stop = asyncio.Event()
            self._ready.set_result((loop, stop))
            await stop.wait()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def _refuse_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "SyncFicha was called inside a running event loop, which would stand still until the answer comes; "
        "use the application itself there: `await app.submit(…)`"
    )


def _keep_for_ever(thing: object) -> None:
    """Keeps an object of the parent from being deleted in a forked child, also when the child ends.

    A connection that is deleted is removed from its event loop's selector, which the parent shares: the parent would
    wait for answers that it never receives.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_FACES: Final[weakref.WeakSet[SyncFicha]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for face in _FACES:
        face._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
