"""What an application declares: pools, tools and their providers, hooks, and recurring jobs. Ficha's own hooks are
declared here too.

`declarations.py` checks the options of each. Anything that only an open application has, such as its engine, stays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, get_args, overload

from msgspec.structs import replace

from .core.payload import Dedupe
from .core.policy import CREDITS_LOW_HOOK, JOB_ENDED_HOOK, TELL_PROVIDER, HookTerms, Plan, Policy
from .core.records import Pool
from .core.schedules import FREE, Missed
from .core.visibility import Audience
from .cron_entries import MAX_ENTRIES, CronEntry, CronPayload, checked_entry
from .declarations import LINGER_MS, CheckpointOrder, checked_pools, declared_tool, is_seconds, name_problem
from .errors import Refused
from .operations import AllOperations
from .providers import Provider, ProviderCall
from .tool_calls import DeclaredTool, handler_of
from .tools import Cost, Isolation, PayloadMismatch, ProviderCost, Tool
from .worker import ENDINGS, Hook, Starter

DEFAULT_POOL: Final = "default"
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
"""Ficha's own hooks, which make the messages of webhooks."""
Handler = TypeVar("Handler", bound=Callable[..., Any])
J = TypeVar("J")
P = ParamSpec("P")
R = TypeVar("R")


class DeclaredParts(AllOperations):
    """The pools, tools, providers and hooks of an application. Its policy holds what the rules know of them."""

    def __init__(self, policy: Policy, pools: Iterable[Pool], time_zone: str = "UTC") -> None:
        self.policy = policy
        self.default_plan = next(iter(policy.plans))
        self._pools = {DEFAULT_POOL: Pool(DEFAULT_POOL)} | checked_pools(pools)
        self.declared_pools: Mapping[str, Pool] = MappingProxyType(self._pools)
        self._tools: dict[str, Tool] = {}
        self.tools: Mapping[str, Tool] = MappingProxyType(self._tools)
        self._hooks: dict[str, Hook] = {}
        self._cron_entries: dict[str, CronEntry] = {}
        self.cron_entries: Mapping[str, CronEntry] = MappingProxyType(self._cron_entries)
        self.time_zone = time_zone
        self._providers: dict[str, Provider] = {}
        self.providers: Mapping[str, Provider] = MappingProxyType(self._providers)
        if self.policy.webhooks is not None:
            make = AllOperations.make_deliveries
            self._hooks = {name: Hook(terms, make, HOOK_S, ends_itself=True) for name, terms in _OWN.items()}
            self.policy = replace(self.policy, hooks=(_OWN[JOB_ENDED_HOOK],))

    @property
    def is_open(self) -> bool:
        raise NotImplementedError

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
        max_recoveries: int | None = None,
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

        The function's signature, after the job, is the payload's schema. The declared tool can be called like the
        function, and submitted: `await upscale.submit(image="cat.png", account="ana")` (see `DeclaredTool`).

        name: the tool's name in a submit. Defaults to the function's name.
        cost: credits for one job: a number, or a function with some of the payload's fields as parameters, which get
            the handler's values.
        pool: the pool whose slots and workers it uses. Defaults to "default".
        timeout: seconds in `starting` or `running` before a job is failed and refunded. Defaults to 600.
        max_wait: seconds in the queue before a job is cancelled and refunded. Defaults to no limit.
        attempts: how often a job may run before an error is final. Defaults to 1: the first error is.
        max_recoveries: lost runs after which a job is failed as poison, if it was alone in its process in the last of
            them; 0: a job whose run is lost is failed, and never run again. Defaults to that of the application.
        backoff, backoff_max: seconds before the first retry, doubling up to the second number. Random jitter shortens
            each by up to half, so that jobs that failed together do not retry together. Default to 1 and 300.
        priority: added to the plan's priority; a larger number is served later. Defaults to 0.
        items: the payload's field with the number of items requested, or with a list of them.
        max_items: submits with more items are split into jobs of at most this many, as one batch.
        dedupe: a payload that one account submits several times is computed once; its other jobs, including those that
            already wait, get the result free of charge. "global": over all accounts together. An account then gets
            results that another one paid for, and any quote tells whether a payload was ever submitted: use it only for
            results that may be public, never if a result holds a secret such as a signed address. Defaults to False.
        isolation: where the handler runs. "auto": a coroutine on the worker's loop, a plain function in a thread;
            "process": in a child process, for code that keeps a core busy or may crash. Defaults to "auto".
        memory_mb: the memory limit of a child process, in MiB. Defaults to none. Only with isolation="process".
        environment: environment variables that a child process gets besides those of the system, of Python and of
            devices; a name that ends in * stands for all that begin so, and "*" for all. Defaults to none. Only with
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
        provider_cost: what an external provider charges for a completed job, in your currency, if the provider does not
            report it itself: a number, or a function with some of the payload's fields as parameters. Operators see it
            beside the credits (`margins`). Defaults to unknown.
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
            if tool.max_recoveries is not None:
                told = {**self.policy.tool_recoveries, called: tool.max_recoveries}
                self.policy = replace(self.policy, tool_recoveries=told)
            if provider is not None:
                self.policy = replace(self.policy, provider_tools=self.policy.provider_tools | {called})
            return DeclaredTool(self, tool, function)

        return declare if handler is None else declare(handler)

    def provider_tool(
        self, provider: Provider, *, when_down: WhenDown = "refuse", **options: Any
    ) -> Callable[[Callable[Concatenate[J, P], Any]], DeclaredTool[J, P, Any]]:
        """Declares a tool whose work an external provider does: `@app.provider_tool(replicate, cost=5)`.

        The function returns a `ProviderCall` that says what the provider is to do. A worker sends it; the job is
        `starting` while the request is out, and `running`, without a worker, once the provider has accepted it. After
        the provider's call-back, or after a poll if none comes, the result's files are copied, and the job is finished
        with `{"output": …, "files": […]}`. If the job is cancelled or times out, the work at the provider is cancelled.

        provider: the client of the provider's API; several tools may share one.
        when_down: what happens to submits while the provider's circuit breaker is open: "refuse": they are refused
            (`PROVIDER_DOWN`), and nothing is charged; "wait": their jobs wait until the provider works again. Defaults
            to "refuse".
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

    def on(
        self,
        *ends: JobEnd,
        tool: str | Iterable[str] | None = None,
        name: str | None = None,
        timeout: float = 60.0,
    ) -> Callable[[Handler], Handler]:
        """Declares a hook: a function that is called with each job that ended in these ways, once the end is committed.

        The transaction of the job's end records that the call is owed; a later one records that it has returned. So it
        is called once for each job. It is called again if it raises, after pauses that grow from a second to five
        minutes, and if the process dies before its return is recorded. Workers that declare it call it; it is owed
        whichever process ends the job, for `hooks_kept_s` after a process last declared it.

        ends: "completed", "failed", "cancelled"; all three if none is named.
        tool: only for jobs of this tool, or of these. Defaults to all.
        name: the hook's name in the database. Defaults to the function's own name. Keep it: calls that are still owed
            under an old name wait for a hook of that name.
        timeout: seconds after which a coroutine is cancelled, and any call is treated as lost. Defaults to 60.
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
            if self.is_open:
                raise RuntimeError(f"the hook {called!r} is declared too late: the application is open already")
            if called in self._hooks or called == TELL_PROVIDER:
                raise ValueError(f"the hook {called!r} is declared twice; give one of them another name")
            terms = HookTerms(called, frozenset(wanted), tools)
            self._hooks[called] = Hook(terms, function, timeout)
            self.policy = replace(self.policy, hooks=(*self.policy.hooks, terms))
            return function

        return declare

    def cron(
        self,
        expression: str,
        *,
        tz: str | None = None,
        account: str | None = None,
        payload: CronPayload | None = None,
        missed: Missed = "once",
        late_s: float = 60.0,
        missed_max: int = 100,
        name: str | None = None,
    ) -> Callable[[Any], DeclaredTool[Any, Any, Any]]:
        """Declares a recurring job: `@app.cron("0 9 * * 1-5", tz="America/Sao_Paulo")`, above a tool or a function.

        A function that is no tool yet becomes one that only the application may call. Each slot leads to one job,
        however many processes run and restart; `schedules` shows a refusal, and the next slot is fired as usual.

        expression: minute, hour, day of month, month and day of week, as in cron; or `@hourly`, `@daily`, `@weekly`,
            `@monthly`, `@yearly`.
        tz: the time zone of the expression. Defaults to the application's `time_zone`.
        account: who pays. Defaults to nobody: the jobs are free, and belong to the account `ficha:schedules`, which has
            no limits.
        payload: the job's payload, or a plain function that makes it from the slot's time. Defaults to none.
        missed: what happens to slots at which no process ran: "skip": nothing; "once": one job for all of them, when a
            process runs again; "all": a job for each, up to `missed_max` of the newest. Defaults to "once".
        late_s: for "skip", how long after its time a slot is still fired. Defaults to 60.
        missed_max: for "all", the most slots. Defaults to 100; at most 1,000.
        name: the schedule's name. Defaults to the tool's name. Keep it: another name is another schedule.
        """

        def declare(given: Any) -> DeclaredTool[Any, Any, Any]:
            found: Any = given if isinstance(given, DeclaredTool) else self.tool(audience="service")(given)
            entry = CronEntry(
                name or found.name,
                expression,
                self.time_zone if tz is None else tz,
                found.name,
                account,
                {} if payload is None else payload,
                missed,
                late_s,
                missed_max,
            )
            checked_entry(entry)
            if self.is_open:
                raise RuntimeError(f"the schedule {entry.name!r} is declared too late: the application is open already")
            if entry.name in self._cron_entries:
                raise ValueError(f"the schedule {entry.name!r} is declared twice; give one of them another name")
            if len(self._cron_entries) >= MAX_ENTRIES:
                raise ValueError(f"an application may declare {MAX_ENTRIES} schedules")
            self._check_payload(entry)
            self._cron_entries[entry.name] = entry
            if account is None and FREE not in self.policy.plans:
                self.policy = replace(self.policy, plans={**self.policy.plans, FREE: Plan(FREE)})
            return found  # type: ignore[no-any-return]

        return declare

    def _check_payload(self, entry: CronEntry) -> None:
        """Checks a fixed payload at once; a function's payload is checked when its slot comes."""
        if callable(entry.payload):
            return
        try:
            self._tools[entry.tool].arguments(self._payload(entry.payload))
        except (PayloadMismatch, Refused) as error:
            raise ValueError(f"schedule {entry.name!r}: {error}") from error

    def _declare_provider(self, tool: str, provider: Provider) -> None:
        if self.is_open:
            raise RuntimeError(f"the tool {tool!r} is declared too late: the application is open already")
        if self._providers.setdefault(provider.name, provider) is not provider:
            raise ValueError(f"two providers are called {provider.name!r}; give one of them another name")

    def _check_hooks(self) -> None:
        """Raises ValueError if a hook is for an undeclared tool. Called at the opening: a hook may precede its tool."""
        for hook in self._hooks.values():
            if missing := sorted((hook.terms.tools or frozenset()) - self._tools.keys()):
                raise ValueError(f"the hook {hook.terms.name!r} is for the tool {missing[0]!r}, which is not declared")

    def _hooks_with(self, starter: Starter | None) -> Mapping[str, Hook]:
        """The hooks that a worker runs; with a starter, also the one that cancels work at providers."""
        return self._hooks if starter is None else {**self._hooks, TELL_PROVIDER: _telling(starter)}


def _declared_name(name: str | None, function: Callable[..., Any], what: str) -> str:
    found = name or getattr(function, "__name__", None)
    if found is None:
        raise ValueError(f"{function!r} has no name; give it one: name=…")
    if (problem := name_problem(found, f"a {what}'s name")) is not None:
        raise ValueError(f"{what} {found!r}: {problem}")
    return str(found)


def _telling(starter: Starter) -> Hook:
    """The built-in hook that cancels work at a provider. It names no ends, because the rules decide when it is owed."""
    return Hook(HookTerms(TELL_PROVIDER, frozenset()), starter.tell, 60.0)
