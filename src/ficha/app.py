"""`Ficha`: an application with all operations; how it is opened, served and closed, and how its workers run.

`declared_parts.py` has what it declares, `policy_settings.py` how its numbers become a policy.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from . import tracing
from . import validation as arg
from .configuration import subjects
from .core.commands import DeclarePool, NoteConfiguration
from .core.outcomes import ConfigurationNoted, PoolChanged
from .core.policy import Plan, Retention, Webhooks
from .core.pools import CONCURRENCY
from .core.records import Pool
from .core.retention import walked_ages
from .cron_entries import checked_zone, daily_cron
from .declared_parts import DeclaredParts
from .engine.committer import CommitLimits
from .engine.engine import Engine
from .engine.queries import Queries
from .engine.trigger import OnWork
from .environment import listed, setting
from .files.inspection_limits import InspectionLimits
from .operations import BoundOperations, FileAccess, ScheduleFirer
from .outbound import AddressRules, Outbound, OutboundError
from .policy_settings import checked_intervals, checked_policy
from .providers import Provider, ProviderHttp
from .signing import LEAST_BYTES, Signer
from .store.base import Store
from .store.connect import connect, store_for
from .store.schema_name import DEFAULT_SCHEMA, schema_problem
from .validation import Limits
from .worker import (
    BulkRunner,
    Collector,
    DeliveryRunner,
    DueRunner,
    HookRunner,
    SignRunner,
    Starter,
    WorkerLoop,
    concurrency_for,
    worker_name,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from .server import Settings

DEFAULT_URL: Final = "sqlite:///ficha.db"
DEFAULT_FILES_URL: Final = "file:ficha-files"
CLOSE_GRACE_S: Final = 2.0


class Ficha(DeclaredParts):
    """An application: its plans, pools and tools, and its database.

    Use it as `async with Ficha(...) as app`. Opening migrates an embedded database; `ficha migrate up` migrates
    PostgreSQL.

    database: a URL, `sqlite:///file.db`, `postgresql://…` or `memory:`. Defaults to FICHA_DATABASE_URL, then to
        `sqlite:///ficha.db`.
    schema: the PostgreSQL schema that holds all tables, apart from others. Defaults to FICHA_SCHEMA, then to `ficha`. A
        URL with `?ficha_schema=…` takes precedence. SQLite and memory ignore it.
    plans: what accounts may do. Defaults to one plan, "default", without limits.
    pools: slots shared by tools. There is always a pool "default" without a limit.
    first_job_boost: subtracted from the priority of an account's first job ever. Defaults to 0.
    batch_spacing_s: how much later each job of a batch counts as submitted than the job before it, for its place in the
        queue, so that jobs of others pass in between. Defaults to 1; with 0 a whole batch goes ahead of all jobs
        submitted after it.
    lease_s: how long a worker holds a job without a heartbeat. Defaults to JOB_LOCK_TTL_MS, then to 60.
    heartbeat_s: how often a worker sends heartbeats. Defaults to JOB_HEARTBEAT_INTERVAL_MS, then to 10, but to no more
        than a third of the lease.
    max_recoveries: lost runs after which a job is dead-lettered, if it was alone in its process in the last of them; 0:
        a job whose run is lost is never run again. Defaults to 3.
    stuck_s: a held job whose last heartbeat is older than this is recovered. Defaults to 600.
    max_age_s: a job first started longer ago than this is failed. Defaults to 86,400.
    key_ttl_s, key_ttl_max_s: how long an idempotency key is kept, and the longest that a submit may ask for. Default to
        86,400 and 2,592,000 (30 days).
    reservation_ttl_s, reservation_ttl_max_s: how long a reservation holds its slot, and the longest that a call may ask
        for. Default to 300 and 86,400.
    reservations_kept_s: how long an ended reservation is kept after its expiry. Defaults to 86,400.
    schedule_max_s: how far ahead a job may be scheduled. Defaults to 31,536,000 (365 days).
    upload_s: how long an upload may take. Defaults to 3,600.
    dead_uploads_kept_s: how long the row of an upload that died is kept, so that bytes which arrive late are deleted.
        Longer than a process may be suspended. Defaults to 86,400.
    unused_file_s: how long a file is kept that no job has taken. Defaults to 86,400.
    hooks_kept_s: how long a hook is owed after a process last declared it, though no running process does. Defaults to
        2,592,000 (30 days).
    commits_kept_s: how long commits are kept, and so how long streams of accounts can be resumed. At least 3,600;
        defaults to 86,400.
    leave_grace_s: how long after a page was left (`leave_session`) the queued jobs of its session are cancelled.
        Defaults to 60.
    silent_session_s: the same, after the last sign of a page that reported that it is open (`stay_in_session`).
        Defaults to 600.
    minute_figures_kept_s, hour_figures_kept_s: how long the figures of each minute and of each hour, from which
        overviews are made, are kept. At least 90,000 and 2,678,400; default to 172,800 (2 days) and 34,560,000 (400
        days).
    warn_share: the share of a quota from which a submit carries a warning. Defaults to 0.8.
    sweep_s: how often recovery and clean-up run, over all processes. Defaults to 1.
    sweep_by_itself: whether sweeps run on a timer; otherwise they run only after calls and reads. Defaults to True.
    daily_at: the time of day, such as 04:00, at which removal by age (`retention`) begins. Defaults to none: removal
        runs all day, as data falls due.
    time_zone: the time zone of `daily_at`, and of schedules that name none. Defaults to UTC.
    webhooks: whether users and operators may register addresses that get a message when a job ends, or the terms for it
        (see `Webhooks`). Workers send the messages. Defaults to False.
    retention: for how many days ended jobs, their payloads and their results are kept (see `Retention`). Defaults to
        for ever.
    on_work: a function, plain or async, that is called when this process made jobs ready (by a submit, a retry, or the
        recovery of a dead worker's job), or a provider called back. It gets the names of the pools, so that it can
        start a worker, and as a second argument, if it takes one, the jobs (`ReadyJob`), so that it can hand them to
        another queue. If it raises, it is called again. Defaults to none.
    limits: the largest sizes accepted (see `Limits`).
    commit_limits: how calls share a commit and how long they wait (see `CommitLimits`).
    inspection_limits: how large a file may become when it is decoded (see `InspectionLimits`).
    secret: signs the addresses that providers call back and links to files; at least 32 characters, the same in every
        process of a deployment. Defaults to FICHA_SECRET; without one there are no such addresses and links.
    public_url: the server's address from outside, such as `https://api.example.com`. Defaults to FICHA_PUBLIC_URL;
        without one, providers cannot call back and are polled for their results.
    files: where uploads and results are kept: `file:folder`, or `s3://bucket/prefix`. Defaults to FICHA_FILES_URL, then
        to `file:ficha-files`.
    allow_addresses: hosts and networks that may be called although they are not public, such as `10.0.0.0/8`, if a user
        or a provider gives the address. Defaults to FICHA_ALLOW_ADDRESSES, then to none.
    store: a custom store, instead of a database's URL.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        schema: str | None = None,
        plans: Iterable[Plan] = (Plan("default"),),
        pools: Iterable[Pool] = (),
        first_job_boost: int = 0,
        batch_spacing_s: float = 1.0,
        lease_s: float | None = None,
        heartbeat_s: float | None = None,
        max_recoveries: int = 3,
        stuck_s: float = 600.0,
        max_age_s: float = 86_400.0,
        key_ttl_s: float = 86_400.0,
        key_ttl_max_s: float = 30 * 86_400.0,
        reservation_ttl_s: float = 300.0,
        reservation_ttl_max_s: float = 86_400.0,
        reservations_kept_s: float = 86_400.0,
        schedule_max_s: float = 365 * 86_400.0,
        upload_s: float = 3_600.0,
        dead_uploads_kept_s: float = 86_400.0,
        unused_file_s: float = 86_400.0,
        hooks_kept_s: float = 30 * 86_400.0,
        commits_kept_s: float = 86_400.0,
        leave_grace_s: float = 60.0,
        silent_session_s: float = 600.0,
        minute_figures_kept_s: float = 2 * 86_400.0,
        hour_figures_kept_s: float = 400 * 86_400.0,
        warn_share: float = 0.8,
        sweep_s: float = 1.0,
        sweep_by_itself: bool = True,
        daily_at: str | None = None,
        time_zone: str = "UTC",
        webhooks: bool | Webhooks = False,
        retention: Retention | None = None,
        on_work: OnWork | None = None,
        limits: Limits | None = None,
        commit_limits: CommitLimits | None = None,
        inspection_limits: InspectionLimits | None = None,
        secret: str | None = None,
        public_url: str | None = None,
        files: str | None = None,
        allow_addresses: Iterable[str] | None = None,
        store: Store | None = None,
    ) -> None:
        if not isinstance(database, str | None):
            raise ValueError(f"database must be a URL such as {DEFAULT_URL}, not {database!r}")
        self.database = database or os.environ.get("FICHA_DATABASE_URL") or DEFAULT_URL
        self.schema = schema or os.environ.get("FICHA_SCHEMA") or DEFAULT_SCHEMA
        if (problem := schema_problem(self.schema)) is not None:
            raise ValueError(problem)
        found = setting(os.environ, "FICHA_SECRET") or ""
        # (A weak secret in the environment is refused by the server, which says so.)
        self.signer = Signer(secret) if secret else Signer(found) if len(found.encode()) >= LEAST_BYTES else None
        self.public_url = (public_url or os.environ.get("FICHA_PUBLIC_URL") or "").rstrip("/") or None
        self.files_url = files or os.environ.get("FICHA_FILES_URL") or DEFAULT_FILES_URL
        allowed = listed(os.environ.get("FICHA_ALLOW_ADDRESSES", "")) if allow_addresses is None else allow_addresses
        self.allow_addresses = tuple(allowed)
        AddressRules(self.allow_addresses)  # An entry that makes no sense shows at once.
        self._outbound: Outbound | None = None
        self.limits = limits or Limits()
        self.lease_s, self.heartbeat_s = checked_intervals(lease_s, heartbeat_s, sweep_s)
        policy = checked_policy(
            plans=plans,
            first_job_boost=first_job_boost,
            batch_spacing_s=batch_spacing_s,
            lease_s=self.lease_s,
            max_recoveries=max_recoveries,
            stuck_s=stuck_s,
            max_age_s=max_age_s,
            key_ttl_s=key_ttl_s,
            key_ttl_max_s=key_ttl_max_s,
            reservation_ttl_s=reservation_ttl_s,
            reservation_ttl_max_s=reservation_ttl_max_s,
            reservations_kept_s=reservations_kept_s,
            schedule_max_s=schedule_max_s,
            upload_s=upload_s,
            dead_uploads_kept_s=dead_uploads_kept_s,
            unused_file_s=unused_file_s,
            hooks_kept_s=hooks_kept_s,
            commits_kept_s=commits_kept_s,
            leave_grace_s=leave_grace_s,
            silent_session_s=silent_session_s,
            minute_figures_kept_s=minute_figures_kept_s,
            hour_figures_kept_s=hour_figures_kept_s,
            warn_share=warn_share,
            webhooks=webhooks,
            retention=retention,
            limits=self.limits,
        )
        self.inspection_limits = inspection_limits or InspectionLimits()
        self.file_access = self._new_file_access()
        checked_zone(time_zone)
        self._daily_at = None if daily_at is None else (daily_cron(daily_at), time_zone)
        super().__init__(policy, pools, time_zone)
        self._store = store
        self._sweep_s = sweep_s
        self._sweeps = sweep_by_itself
        self._on_work = on_work
        self._commit_limits = commit_limits
        self._engine: Engine | None = None
        self._queries: Queries | None = None
        self._exports_spans = False

    def provider_http(
        self,
        provider: Provider,
        correlation_id: str | None = None,
        trace: str | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> ProviderHttp:
        return ProviderHttp(
            self.outbound,
            timeout_s=provider.timeout_s,
            turn=partial(self.provider_turn, provider),
            errors=(OutboundError,),
            correlation_id=correlation_id,
            trace=trace,
            before=before,
        )

    def use_database(self, url: str) -> None:
        """Uses this database instead of the declared one. Call it before the application is opened."""
        self.database, self._store = url, None

    @property
    def fingerprint(self) -> str | None:
        """Tells secrets apart and reveals nothing of one. None without a secret."""
        return None if self.signer is None else self.signer.sign("fingerprint")

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the application is not open; use `async with app:` or `await app.open()`")
        return self._engine

    @property
    def queries(self) -> Queries:
        if self._queries is None:
            raise RuntimeError("the application is not open; use `async with app:` or `await app.open()`")
        return self._queries

    @property
    def outbound(self) -> Outbound:
        """The client of all outgoing HTTP calls. It lives as long as the application is open."""
        if self._outbound is None:
            self._outbound = Outbound(self.allow_addresses)
        return self._outbound

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    def asgi(self, settings: Settings | None = None) -> ASGIApp:
        """The ASGI application, to be served, or mounted into a FastAPI or Starlette application. Its lifespan opens
        this application; if mounted, the first request does, unless the application is open already.

        settings: secrets and limits. Default to the environment's; without FICHA_SECRET it warns, and uses a random
            secret that this process forgets. A second process without one is refused.
        """
        # Imported here, because most processes do not serve, and the server takes longer to import than all else.
        from .server import asgi

        return asgi(self, settings)

    def unopened(self) -> Self:
        """A copy with the same declarations that is not open, for another event loop."""
        found = copy(self)
        found._engine = found._queries = found._outbound = None
        found._exports_spans = False
        found.file_access = found._new_file_access()
        return found

    def _new_file_access(self) -> FileAccess:
        return FileAccess(self.files_url, self.signer, self.public_url, self.inspection_limits)

    async def open(self) -> Self:
        """Connects to the database and declares the pools there."""
        if self._engine is not None:
            raise RuntimeError("the application is open already")
        self._check_hooks()
        store = self._store or await connect(self.database, self.schema)
        try:
            await store.open()
        except BaseException:
            await store.close()
            raise
        engine = Engine(store, self.policy, self._commit_limits, sweep_interval_s=self._sweep_s, on_work=self._on_work)
        self._engine, self._queries = engine, Queries(engine, engine.positions, self.limits.page_bytes)
        engine.sweeper.sweep_files = self.sweep_files
        engine.sweeper.daily_at = self._daily_at or engine.sweeper.daily_at
        if self.cron_entries:
            engine.sweeper.fire_schedules = ScheduleFirer(self).fire
        if self.policy.retention.by_itself and walked_ages(self.policy.retention):
            if self._daily_at is None:
                engine.sweeper.prune = self.prune_step
            else:
                engine.sweeper.daily = self.prune_step
        try:
            if (endpoint := setting(os.environ, "FICHA_OTLP_ENDPOINT")) is not None:
                tracing.acquire(endpoint)
                self._exports_spans = True
            await engine.start(sweep=self._sweeps)
            await engine.hooks.begin()
            for pool in self._pools.values():
                await self._ask(DeclarePool(pool.name, pool.slots), PoolChanged)
            declared = subjects(self._tools.values(), self._pools.values(), self.policy, self.limits)
            await self._ask(NoteConfiguration(declared), ConfigurationNoted)
        except BaseException:
            await self.close(grace_s=0.0)
            raise
        return self

    async def run_worker(
        self,
        pools: Sequence[str] | None = None,
        *,
        concurrency: int | None = None,
        worker: str | None = None,
        burst: bool = False,
        due_within_s: float = 0.0,
        max_seconds: float | None = None,
    ) -> int:
        """Runs jobs in this process until cancelled, and returns how many. Jobs still running then are handed back.

        pools: the pools to serve. Defaults to all declared pools.
        concurrency: jobs at a time. Defaults to 10, or to more if a tool takes several jobs per call: enough for its
            `max_calls` (1 if it has no limit) and for one more call, whose jobs are collected meanwhile.
        worker: the worker's name. Defaults to WORKER_ID, then to the host's name and the process id.
        burst: return when the queue is empty.
        due_within_s: a burst also waits for retries and schedules that fall due within this time. Defaults to 0.
        max_seconds: claim nothing more after this time.
        """
        runner = self.worker(pools, concurrency=concurrency, name=worker)
        return await runner.run(burst=burst, due_within_s=due_within_s, max_seconds=max_seconds)

    def worker(
        self,
        pools: Sequence[str] | None = None,
        *,
        concurrency: int | None = None,
        name: str | None = None,
        hung: Callable[[], None] | None = None,
    ) -> WorkerLoop:
        """A worker that does not run yet, and can be stopped; `run_worker` describes the arguments.

        hung: called, on another thread, when a handler has blocked the event loop beyond its timeout.
        """
        has_own_thread = self._store is None and not self.database.startswith("memory:")
        served = tuple(self._pools) if pools is None else arg.names(pools, "pool")
        if concurrency is None:
            served_tools = [tool for tool in self.tools.values() if tool.pool in served]
            concurrency = min(self.limits.claim_jobs, max(map(concurrency_for, served_tools), default=CONCURRENCY))
        starter = Starter(self) if self._providers else None
        return WorkerLoop(
            self,
            self.tools,
            pools=served,
            concurrency=arg.count(concurrency, "concurrency", self.limits.claim_jobs),
            name=arg.name(worker_name(name), "a worker's name"),
            heartbeat_s=self.heartbeat_s,
            open_operations=partial(self.separate_operations, sweeps=False) if has_own_thread else None,
            hung=hung,
            starter=starter,
            beside=self._beside(starter),
        )

    def _beside(self, starter: Starter | None) -> list[DueRunner]:
        """What a worker runs beside its jobs. Hooks come after the collector, which ends jobs, and webhooks after
        hooks, which make them."""
        hooks = self._hooks_with(starter)
        terms = self.policy.webhooks
        return [
            *([] if starter is None else [Collector(self, self.tools)]),
            *([HookRunner(self, hooks)] if hooks else []),
            *([] if terms is None else [DeliveryRunner(self, self.outbound, timeout_s=terms.timeout_s)]),
            BulkRunner(self),
            SignRunner(lambda: self.engine, self.fingerprint),
        ]

    @asynccontextmanager
    async def separate_operations(self, *, sweeps: bool = True, creates: bool = True) -> AsyncIterator[BoundOperations]:
        """All operations over a separate connection, for a thread or a command, whether the application is open or not.
        Declares no pools, and listens to no wake-ups.

        sweeps: whether calls trigger sweeps, as in an open application. creates: whether to create an embedded database
        that does not exist.
        """
        store = await connect(self.database, self.schema) if creates else store_for(self.database, self.schema)
        try:
            await store.open()
            sweep_s = self._sweep_s if sweeps else float("inf")
            on_work = self._on_work if sweeps else None
            engine = Engine(store, self.policy, self._commit_limits, sweep_interval_s=sweep_s, on_work=on_work)
            await engine.start(sweep=False, listen=False)
            await (engine.hooks.begin() if sweeps else engine.hooks.learn())
            file_access = self._new_file_access()
            outbound = Outbound(self.allow_addresses)
            try:
                yield BoundOperations(
                    engine,
                    tools=self.tools,
                    limits=self.limits,
                    default_plan=self.default_plan,
                    file_access=file_access,
                    outbound=outbound,
                    cron_entries=self.cron_entries,
                )
            finally:
                await engine.stop(CLOSE_GRACE_S)
                await file_access.close()
                await outbound.close()
        finally:
            await store.close()

    async def close(self, grace_s: float = 10.0) -> None:
        """Answers or refuses every call under way, then closes the connections."""
        engine = self._engine
        if engine is None:
            return
        try:
            await engine.stop(grace_s)
            await self.file_access.close()
            await engine.store.close()
        finally:
            # Not before: calls under way still use them.
            outbound, self._outbound = self._outbound, None
            self._engine = self._queries = None
            if outbound is not None:
                await outbound.close()
            if self._exports_spans:
                self._exports_spans = False
                await tracing.release()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
