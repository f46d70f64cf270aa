"""`Ficha`: an application's plans, pools and tools, and all operations."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, Self, TypeVar, get_args, overload

from msgspec.structs import replace

from . import validation as arg
from .core.commands import DeclarePool
from .core.outcomes import PoolChanged
from .core.payload import Dedupe
from .core.policy import CREDITS_LOW_HOOK, JOB_ENDED_HOOK, TELL_PROVIDER, HookTerms, Plan, Webhooks
from .core.records import Pool
from .core.visibility import Audience
from .declarations import (
    LINGER_MS,
    CheckpointOrder,
    checked_pools,
    declared_tool,
    is_seconds,
    name_problem,
)
from .engine.committer import CommitLimits
from .engine.engine import Engine
from .engine.queries import Queries
from .engine.trigger import OnWork
from .environment import listed, setting
from .files.inspection_limits import InspectionLimits
from .operations import AllOperations, BoundOperations, FileAccess
from .outbound import AddressRules, Outbound, OutboundError
from .policy_settings import checked_intervals, checked_policy
from .providers import Provider, ProviderCall, ProviderHttp
from .signing import LEAST_BYTES, Signer
from .store.base import Store
from .store.connect import connect, store_for
from .store.schema_name import DEFAULT_SCHEMA, schema_problem
from .tool_calls import DeclaredTool, handler_of
from .tools import Cost, Isolation, ProviderCost, Tool
from .validation import Limits
from .worker import (
    CONCURRENCY,
    ENDINGS,
    Collector,
    DeliveryRunner,
    Hook,
    HookRunner,
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
DEFAULT_POOL: Final = "default"
CLOSE_GRACE_S: Final = 2.0
NOT_FOR_PROVIDERS: Final = (
    *("isolation", "jobs_per_call", "memory_mb", "environment", "recycle_after", "checkpoints", "linger_ms"),
)

HOOK_S: Final = 60.0
"""How long Ficha's own hooks may take."""

JobEnd = Literal["completed", "failed", "cancelled"]
WhenDown = Literal["refuse", "wait"]
_OWN: Final = {
    JOB_ENDED_HOOK: HookTerms(JOB_ENDED_HOOK, frozenset(get_args(JobEnd))),
    CREDITS_LOW_HOOK: HookTerms(CREDITS_LOW_HOOK, frozenset()),
}
"""The hooks that owe webhooks."""
Handler = TypeVar("Handler", bound=Callable[..., Any])
J = TypeVar("J")
P = ParamSpec("P")
R = TypeVar("R")


class Ficha(AllOperations):
    """An application: its plans, pools and tools, and its database.

    Use it as `async with Ficha(...) as app`. Opening migrates an embedded database; `ficha migrate up` migrates
    PostgreSQL.

    database: a URL, `sqlite:///file.db`, `postgresql://…` or `memory:`. Defaults to FICHA_DATABASE_URL, then to
        `sqlite:///ficha.db`.
    schema: the PostgreSQL schema that holds all tables, so that they meet no others. Defaults to FICHA_SCHEMA, then to
        `ficha`. A URL with `?ficha_schema=…` goes before it. SQLite and memory have none, and ignore it.
    plans: what accounts may do. Defaults to one plan, "default", without limits.
    pools: slots shared by tools. There is always a pool "default" without a limit.
    first_job_boost: subtracted from the priority of an account's first job ever. Defaults to 0.
    lease_s: how long a worker holds a job without a heartbeat. Defaults to JOB_LOCK_TTL_MS, then to 60.
    heartbeat_s: how often a worker sends one. Defaults to JOB_HEARTBEAT_INTERVAL_MS, then to 10, but to no more than a
        third of the lease.
    max_recoveries: lost runs after which a job is dead-lettered. Defaults to 3.
    stuck_s: a held job whose last heartbeat is older is recovered. Defaults to 600.
    max_age_s: a job first started longer ago is failed. Defaults to 86,400.
    key_ttl_s, key_ttl_max_s: how long an idempotency key is kept, and the longest that a submit may ask for. Default to
        86,400 and 2,592,000 (30 days).
    reservation_ttl_s, reservation_ttl_max_s: how long a reservation holds its slot, and the longest that may be asked
        for. Default to 300 and 86,400.
    reservations_kept_s: how long a reservation that ended is kept after its time was over. Defaults to 86,400.
    schedule_max_s: how far ahead a job may be scheduled. Defaults to 31,536,000 (365 days).
    upload_s: how long an upload may take. Defaults to 3,600.
    unused_file_s: how long a file is kept that no job has taken. Defaults to 86,400.
    commits_kept_s: how long streams of accounts can be resumed: commits are kept for so long. At least 3,600; defaults
        to 86,400.
    warn_share: the share of a quota from which a submit carries a warning. Defaults to 0.8.
    sweep_s: how often recovery and clean-up run, over all processes. Defaults to 1.
    sweep_by_itself: whether they run on a timer; otherwise they run only after calls and reads. Defaults to True.
    webhooks: whether users and operators may have messages sent to addresses that they give when jobs end, or on which
        terms (see `Webhooks`). Workers send them. Defaults to False.
    on_work: a function, plain or async, that is called with the names of pools when a call of this process made their
        jobs ready, or a provider called back, so that it can start a worker. Defaults to none.
    limits: the largest sizes accepted (see `Limits`).
    commit_limits: how calls share a commit and how long they wait (see `CommitLimits`).
    inspection_limits: how large a file may become when it is decoded (see `InspectionLimits`).
    secret: signs the addresses that providers call back and links to files; at least 32 characters, the same in every
        process of a deployment. Defaults to FICHA_SECRET; without one there are no such addresses and links.
    public_url: where the server is reached from outside, such as `https://api.example.com`. Defaults to
        FICHA_PUBLIC_URL; without one, providers are asked for their results and cannot call back.
    files: where uploads and results are kept: `file:folder`, or `s3://bucket/prefix`. Defaults to FICHA_FILES_URL, then
        to `file:ficha-files`.
    allow_addresses: hosts and networks that may be called although they are not public, such as `10.0.0.0/8`, where a
        user or a provider gives the address. Defaults to FICHA_ALLOW_ADDRESSES, then to none.
    store: a custom store, in place of a database's URL.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        schema: str | None = None,
        plans: Iterable[Plan] = (Plan("default"),),
        pools: Iterable[Pool] = (),
        first_job_boost: int = 0,
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
        unused_file_s: float = 86_400.0,
        commits_kept_s: float = 86_400.0,
        warn_share: float = 0.8,
        sweep_s: float = 1.0,
        sweep_by_itself: bool = True,
        webhooks: bool | Webhooks = False,
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
        self.policy = checked_policy(
            plans=plans,
            first_job_boost=first_job_boost,
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
            unused_file_s=unused_file_s,
            commits_kept_s=commits_kept_s,
            warn_share=warn_share,
            webhooks=webhooks,
            limits=self.limits,
        )
        self.default_plan = next(iter(self.policy.plans))
        self.inspection_limits = inspection_limits or InspectionLimits()
        self.file_access = self._new_file_access()
        self._pools = {DEFAULT_POOL: Pool(DEFAULT_POOL)} | checked_pools(pools)
        self._tools: dict[str, Tool] = {}
        self.tools: Mapping[str, Tool] = MappingProxyType(self._tools)
        self._hooks: dict[str, Hook] = {}
        self._providers: dict[str, Provider] = {}
        self.providers: Mapping[str, Provider] = MappingProxyType(self._providers)
        if self.policy.webhooks is not None:
            make = AllOperations.make_deliveries
            self._hooks = {name: Hook(terms, make, HOOK_S, ends_itself=True) for name, terms in _OWN.items()}
            self.policy = replace(self.policy, hooks=(_OWN[JOB_ENDED_HOOK],))
        self._store = store
        self._sweep_s = sweep_s
        self._sweeps = sweep_by_itself
        self._on_work = on_work
        self._commit_limits = commit_limits
        self._engine: Engine | None = None
        self._queries: Queries | None = None

    @overload
    def tool(self, handler: Callable[Concatenate[J, P], R], /) -> DeclaredTool[J, P, R]: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        cost: Cost = 0,
        pool: str = DEFAULT_POOL,
        timeout: float = 600.0,
        max_wait: float | None = None,
        attempts: int = 1,
        backoff: float = 1.0,
        backoff_max: float = 300.0,
        priority: int = 0,
        items: str | None = None,
        max_items: int | None = None,
        dedupe: Dedupe = False,
        isolation: Isolation = "auto",
        memory_mb: int | None = None,
        environment: Sequence[str] = (),
        recycle_after: int | None = None,
        jobs_per_call: int | None = None,
        linger_ms: int = LINGER_MS,
        max_calls: int | None = None,
        setup: Callable[..., Any] | None = None,
        devices: Sequence[str] = (),
        checkpoints: CheckpointOrder | None = None,
        fatal: type[Exception] | tuple[type[Exception], ...] = (),
        stop_grace: float = 5.0,
        audience: Audience = "user",
        plans: Sequence[str] | None = None,
        provider_cost: ProviderCost | None = None,
    ) -> Callable[[Callable[Concatenate[J, P], R]], DeclaredTool[J, P, R]]: ...

    def tool(self, handler: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]  # (It accepts both.)
        """Declares a function as a tool: `@app.tool`, or `@app.tool(cost=5, timeout=600)`.

        The function's signature, after the job, is the payload's schema. What is declared can be called like the
        function, and submitted: `await upscale.submit(image="cat.png", account="ana")` (see `DeclaredTool`).

        name: what the tool is called in a submit. Defaults to the function's name.
        cost: credits for one job: a number, or a function with some of the payload's fields as parameters, which get
            the handler's values.
        pool: the pool whose slots and workers it uses. Defaults to "default".
        timeout: seconds in `starting` or `running` before a job is failed and refunded. Defaults to 600.
        max_wait: seconds in the queue before a job is cancelled and refunded. Defaults to no limit.
        attempts: how often a job may run before an error is final. Defaults to 1: the first error is.
        backoff, backoff_max: seconds before the first retry, doubling up to the second number. Random jitter shortens
            each by up to half, so that jobs that failed together do not retry together. Default to 1 and 300.
        priority: added to the plan's priority; a larger number is served later. Defaults to 0.
        items: the payload's field with the number of items requested, or with a list of them.
        max_items: submits with more items are split into jobs of at most this many, as one batch.
        dedupe: the same payload of one account is computed once; its other jobs get the result free of charge, also
            those that wait already. "global": over all accounts together. Then whoever submits a payload is given the
            result that another account paid for, and anybody's quote tells whether it was ever submitted: only for
            results that may be public, never where a result holds a secret such as a signed address. Defaults to False.
        isolation: where the handler runs. "auto": a coroutine on the worker's loop, a plain function in a thread;
            "process": in a child process, for code that keeps a core busy or may crash. Defaults to "auto".
        memory_mb: the memory limit of a child process, in MiB. Defaults to none. Only with isolation="process".
        environment: environment variables that a child process gets besides those of the system, of Python and of
            devices; one that ends in * stands for all that begin so, and "*" for all. Defaults to none. Only with
            isolation="process".
        recycle_after: a child process is replaced after this many jobs. Defaults to never. Only with
            isolation="process".
        jobs_per_call: up to this many jobs share one call, `handler(jobs)` or `handler(jobs, payloads: list[Model])`;
            each still has its own outcome, charge and lease. Defaults to one job per call.
        linger_ms: how long a call that is not full waits for more jobs. Defaults to 20.
        max_calls: how many calls of the handler may be under way in one worker, such as 1 for a model that needs a
            device to itself. Further jobs that the worker holds wait for their turn. Defaults to no limit but
            `concurrency`.
        setup: a function that is called once per thread if the handler is a plain function, once per child process,
            else once per worker. Handlers find what it returns, such as a model, in `job.setup`. If it raises, jobs go
            back to the queue without an attempt used up, and the worker tries it again later.
        devices: names of devices, such as "cuda:0". Each thread or child process of the tool is bound to one of them,
            the one that has the fewest; handlers find it in `job.device`, and a `setup` with a parameter gets it.
            `max_calls` then defaults to the number of devices. Not for a coroutine handler without isolation="process".
        checkpoints: the names that a handler may save. In a list, a job begins with the first, and each may follow only
            the one before it. A mapping gives for each name those that may follow it; a job begins with one that
            follows no other. A name may be saved again; one before the job's last changes nothing. Defaults to any name
            in any order.
        fatal: an exception class, or several, for which a retry cannot help: the job fails at once, as for
            `FinalError`.
        audience: "user": users may call it over HTTP with their own key or token. "service": only the application may,
            in-process or with a service or admin key; users do not see it. Defaults to "user".
        provider_cost: what an external provider takes for a completed job, in your currency, where the provider does
            not say so itself: a number, or a function with some of the payload's fields as parameters. Operators see
            it beside the credits (`margins`). Defaults to unknown.
        plans: the plans whose users may call it. Binds users only, as `audience` does. Defaults to all plans.
        stop_grace: seconds for a cancelled handler to clean up before it is abandoned (a thread) or killed (a process).
            Defaults to 5.
        """

        name = options.pop("name", None)
        provider: Provider | None = options.get("provider")

        def declare(given: Any) -> Any:
            function = handler_of(given)
            called = _declared_name(name, function, "tool")
            if provider is not None:
                self._declare_provider(called, provider)
            if called in self._tools:
                raise ValueError(f"the tool {called!r} is declared twice; give one of them another name")
            pool = options.get("pool", DEFAULT_POOL)
            if pool not in tuple(self._pools):
                raise ValueError(f"tool {called!r} names the pool {pool!r}, which is not declared; add Pool({pool!r})")
            tool = declared_tool(
                called,
                function,
                longest_s=self.policy.max_age_ms / 1_000,
                endings=ENDINGS if provider is None else (*ENDINGS, ProviderCall),
                known_plans=self.policy.plans,
                **options,
            )
            self._tools[called] = tool
            if provider is not None:
                self.policy = replace(self.policy, provider_tools=self.policy.provider_tools | {called})
            return DeclaredTool(self, tool, function)

        return declare if handler is None else declare(handler)

    def provider_tool(
        self, provider: Provider, *, when_down: WhenDown = "refuse", **options: Any
    ) -> Callable[[Callable[Concatenate[J, P], Any]], DeclaredTool[J, P, Any]]:
        """Declares a tool whose work an external provider does: `@app.provider_tool(replicate, cost=5)`.

        The function makes the call: it returns a `ProviderCall` with what the provider is to do. A worker sends it; the
        job is `starting` while the request is out, and `running`, without a worker, once the provider has accepted it.
        When the provider calls back or, if it does not, is asked, the result's files are copied, and the job is
        finished with `{"output": …, "files": […]}`. If the job is cancelled or times out, the provider is told.

        provider: what speaks to it; several tools may share one.
        when_down: what becomes of submits while the provider's circuit breaker is open: "refuse": they are told so
            (`PROVIDER_DOWN`), and nothing is charged; "wait": their jobs wait until it works again. Defaults to
            "refuse".
        options: those of `tool`, except `isolation`, `jobs_per_call`, `linger_ms`, `memory_mb`, `environment`,
            `recycle_after` and `checkpoints`, which are for work done here. `timeout` is for the request and the
            provider's work together.
        """
        if not isinstance(provider, Provider):
            raise ValueError(f"{provider!r} is not a Provider; write @app.provider_tool(Replicate(…), cost=…)")
        if when_down not in get_args(WhenDown):
            raise ValueError(f"when_down must be one of {', '.join(get_args(WhenDown))}, not {when_down!r}")
        for option in NOT_FOR_PROVIDERS:
            if option in options:
                raise ValueError(f"{option} is for work that is done here, and does not go with a provider")
        declare: Any = self.tool
        declared: Callable[[Callable[Concatenate[J, P], Any]], DeclaredTool[J, P, Any]] = declare(
            **options, provider=provider, down_with=provider.name if when_down == "refuse" else None
        )
        return declared

    def _declare_provider(self, tool: str, provider: Provider) -> None:
        if self._engine is not None:
            raise RuntimeError(f"the tool {tool!r} is declared too late: the application is open already")
        if self._providers.setdefault(provider.name, provider) is not provider:
            raise ValueError(f"two providers are called {provider.name!r}; give one of them another name")

    def provider_http(self, provider: Provider, correlation_id: str | None = None) -> ProviderHttp:
        return ProviderHttp(
            self.outbound,
            timeout_s=provider.timeout_s,
            turn=partial(self.provider_turn, provider),
            errors=(OutboundError,),
            correlation_id=correlation_id,
        )

    def on(
        self,
        *ends: JobEnd,
        tool: str | Iterable[str] | None = None,
        name: str | None = None,
        timeout: float = 60.0,
    ) -> Callable[[Handler], Handler]:
        """Declares a hook: a function that is called with each job that ended so, after that was committed.

        That it is to be called is recorded with the job's end, in the same transaction, and that it was called is
        recorded when it returned; so it is called once for each job. If it raises, it is called again, after a second
        and ever later, up to five minutes; and also if the process dies before its end is recorded. Workers call it.

        ends: "completed", "failed", "cancelled"; all three if none is named.
        tool: only for jobs of this tool, or of these. Defaults to all.
        name: what it is called in the database. Defaults to the function's own name. Keep it: what is still to be
            called under another name stays there.
        timeout: seconds after which a coroutine is cancelled, and any call is taken for lost. Defaults to 60.
        """
        known: tuple[JobEnd, ...] = get_args(JobEnd)
        wanted = ends or known
        if unknown := [end for end in wanted if end not in known]:
            raise ValueError(f"a job ends as one of {', '.join(known)}, not as {unknown[0]!r}")
        if not is_seconds(timeout):
            raise ValueError(f"timeout must be a number of seconds from a millisecond up, not {timeout!r}")
        tools = None if tool is None else frozenset([tool] if isinstance(tool, str) else tool)

        def declare(function: Handler) -> Handler:
            called = _declared_name(name, function, "hook")
            if called.startswith("ficha:"):
                raise ValueError(f"the hook {called!r} needs another name: names that begin with ficha: are reserved")
            if self._engine is not None:
                raise RuntimeError(f"the hook {called!r} is declared too late: the application is open already")
            if called in self._hooks or called == TELL_PROVIDER:
                raise ValueError(f"the hook {called!r} is declared twice; give one of them another name")
            terms = HookTerms(called, frozenset(wanted), tools)
            self._hooks[called] = Hook(terms, function, timeout)
            self.policy = replace(self.policy, hooks=(*self.policy.hooks, terms))
            return function

        return declare

    def use_database(self, url: str) -> None:
        """Uses this database instead of the one that was declared; before the application is opened."""
        self.database, self._store = url, None

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
        """The client of all calls to addresses outside. It lives as long as the application is open."""
        if self._outbound is None:
            self._outbound = Outbound(self.allow_addresses)
        return self._outbound

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    def asgi(self, settings: Settings | None = None) -> ASGIApp:
        """The ASGI application, to be served, or mounted into a FastAPI or Starlette application. Its lifespan opens
        this application; mounted, the first request does, unless it is open already.

        settings: secrets and limits. Default to the environment's; without FICHA_SECRET it warns, and uses a random
            secret that this process forgets. A second process without one is refused.
        """
        # Only here: most processes do not serve, and the server takes longer to import than all else.
        from .server import asgi

        return asgi(self, settings)

    def unopened(self) -> Self:
        """A copy with the same declarations that is not open, for another event loop."""
        found = copy(self)
        found._engine = found._queries = found._outbound = None
        found.file_access = found._new_file_access()
        return found

    def _new_file_access(self) -> FileAccess:
        return FileAccess(self.files_url, self.signer, self.public_url, self.inspection_limits)

    async def open(self) -> Self:
        """Connects to the database and declares the pools there."""
        if self._engine is not None:
            raise RuntimeError("the application is open already")
        for hook in self._hooks.values():
            if missing := sorted((hook.terms.tools or frozenset()) - self._tools.keys()):
                raise ValueError(f"the hook {hook.terms.name!r} is for the tool {missing[0]!r}, which is not declared")
        store = self._store or await connect(self.database, self.schema)
        try:
            await store.open()
        except BaseException:
            await store.close()
            raise
        engine = Engine(store, self.policy, self._commit_limits, sweep_interval_s=self._sweep_s, on_work=self._on_work)
        self._engine, self._queries = engine, Queries(engine, engine.positions, self.limits.page_bytes)
        engine.sweeper.sweep_files = self.sweep_files
        try:
            await engine.start(sweep=self._sweeps)
            for pool in self._pools.values():
                await self._ask(DeclarePool(pool.name, pool.slots), PoolChanged)
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
            `max_calls` (1 if it has no limit) and for one call more, which is put together meanwhile.
        worker: its name. Defaults to WORKER_ID, then to the host's name and the process id.
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
        starter, terms = Starter(self) if self._providers else None, self.policy.webhooks
        hooks = self._hooks if starter is None else {**self._hooks, TELL_PROVIDER: _telling(starter)}
        return WorkerLoop(
            self,
            self.tools,
            pools=served,
            concurrency=arg.count(concurrency, "concurrency", self.limits.claim_jobs),
            name=arg.name(worker_name(name), "a worker's name"),
            heartbeat_s=self.heartbeat_s,
            open_operations=partial(self.separate_operations, sweeps=False) if has_own_thread else None,
            hung=hung,
            hooks=HookRunner(self, hooks) if hooks else None,
            starter=starter,
            collector=Collector(self, self.tools) if self._providers else None,
            deliveries=None if terms is None else DeliveryRunner(self, self.outbound, timeout_s=terms.timeout_s),
        )

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
            engine = Engine(store, self.policy, self._commit_limits, sweep_interval_s=sweep_s)
            await engine.start(sweep=False, listen=False)
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
            # Only now: calls under way still use them.
            outbound, self._outbound = self._outbound, None
            self._engine = self._queries = None
            if outbound is not None:
                await outbound.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _declared_name(name: str | None, function: Callable[..., Any], what: str) -> str:
    found = name or getattr(function, "__name__", None)
    if found is None:
        raise ValueError(f"{function!r} has no name; give it one: name=…")
    if (problem := name_problem(found, f"a {what}'s name")) is not None:
        raise ValueError(f"{what} {found!r}: {problem}")
    return str(found)


def _telling(starter: Starter) -> Hook:
    """The built-in hook that tells a provider. Rules owe it; it is for no end by itself."""
    return Hook(HookTerms(TELL_PROVIDER, frozenset()), starter.tell, 60.0)
