"""Authorization: every route names the callers it is for, and gets a `Call` with the caller."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin
from urllib.parse import unquote_to_bytes

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request

from .. import validation as arg
from ..core.outcomes import Refusal
from ..core.refusals import no_job
from ..engine.views import EventView, JobView, Page, owner_event_view, owner_job_view
from ..errors import Refused
from .cursors import Cursors
from .identity.callers import Caller, Scope
from .identity.sign_ins import COOKIE
from .settings import Settings

if TYPE_CHECKING:
    from ..app import Ficha
    from ..operations import BoundOperations
    from .identity import Identity
    from .usage import Usage


ONCE: Final = frozenset(
    {
        *(b"authorization", b"content-type", b"host", b"idempotency-key", b"last-event-id", b"x-correlation-id"),
        *(b"origin", b"sec-fetch-site"),
    }
)
"""Headers that a request has at most once."""
OPERATORS: Final[frozenset[Scope]] = frozenset({"service", "admin", "viewer"})
"""Scopes that see every account's data."""
MAX_PARAMETERS: Final = 100
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""


class Call:
    """A request with its caller, and what the caller may see."""

    def __init__(self, request: Request, app: Ficha, caller: Caller) -> None:
        self.request = request
        self.app = app
        self.caller = caller

    @property
    def settings(self) -> Settings:
        settings: Settings = self.request.app.state.settings
        return settings

    @property
    def acting(self) -> BoundOperations:
        """The operations in the caller's name: the audit log records whatever they change."""
        return self.app.acting(self.caller.name, key_id=self.caller.key_id)

    @property
    def doing(self) -> BoundOperations:
        """The operations of routes that are not for operators alone: only an admin's changes are audited. Submitted
        jobs name the caller's key, whatever its scope."""
        is_operator = self.caller.scope == "admin"
        return self.app.acting(self.caller.name if is_operator else None, key_id=self.caller.key_id)

    @property
    def correlation_id(self) -> str | None:
        return correlation_id(self.request)

    @property
    def sees_all(self) -> bool:
        return self.caller.scope in OPERATORS

    def account(self, named: str | None) -> str:
        """The account that the call is about: a user's own, or the one that a service names."""
        found = self.account_if_any(named)
        if found is None:
            raise arg.invalid("`account` is missing: your key is for all accounts, so name one")
        return found

    def account_if_any(self, named: str | None) -> str | None:
        """The same, but None where a service means all accounts."""
        if self.sees_all:
            return named
        if named is not None and named != self.caller.account:
            raise Refused.of(Refusal("FORBIDDEN", "your key is for one account; leave `account` out."))
        return self.caller.account

    @property
    def owner(self) -> str | None:
        """The account that the caller is limited to; None for all."""
        return None if self.sees_all else self.caller.account

    def check_owner(self, account: str, absent: Refusal) -> None:
        """Refuses what belongs to another account with `absent`, the refusal of what does not exist."""
        if self.owner is not None and account != self.owner:
            raise Refused.of(absent)

    async def job(self, job_id: str) -> JobView:
        """A job that the caller may see."""
        self.check_job(job_id)
        job = await self.app.job(job_id)
        # In the spelling that was asked for: another id would say that there is such a request.
        self.check_owner(job.account, no_job(arg.job_id(job_id)))
        return job

    def shown(self, job: JobView) -> JobView:
        """What the caller may read of a job: its owner all but internal errors, the other scopes all of it."""
        return job if self.sees_all else owner_job_view(job)

    def shown_event(self, event: EventView) -> EventView:
        """The same of an event."""
        return event if self.sees_all else owner_event_view(event)

    def check_job(self, job_id: str) -> None:
        """Refuses any other job to a job token."""
        if self.caller.job is not None and (asked := arg.job_id(job_id)) != self.caller.job:
            raise Refused.of(no_job(asked))

    def while_valid(self) -> AbstractAsyncContextManager[None]:
        """A block that ends with UNAUTHENTICATED as soon as the caller's credential expires or is revoked."""
        return self.identity.while_valid(self.caller)

    @property
    def usage(self) -> Usage:
        """What the request has of its caller's share."""
        usage: Usage = self.request.state.usage
        return usage

    @property
    def identity(self) -> Identity:
        identity: Identity = self.request.app.state.identity
        return identity

    def cursor(self, name: str, given: str | None) -> str | None:
        return self._cursors.open(name, given)

    def page(self, name: str, page: Page[Any]) -> Page[Any]:
        """A page with its cursor signed, to be used for this list only."""
        return Page(page.items, self.sealed(name, page.next))

    def sealed(self, name: str, following: str | None) -> str | None:
        """The signed cursor of a list, to be used for this list only."""
        return self._cursors.seal(name, following)

    @property
    def _cursors(self) -> Cursors:
        cursors: Cursors = self.request.app.state.cursors
        return cursors


def correlation_id(request: Request) -> str | None:
    found: str | None = getattr(request.state, "correlation_id", None)
    return found


class Guard:
    """A dependency that admits only these callers. A test fails for a route without one."""

    def __init__(self, *scopes: Scope, in_query: bool = False) -> None:
        self.scopes: Final = frozenset(scopes)
        self.in_query: Final = in_query

    async def __call__(self, request: Request) -> Call:
        state = request.app.state
        self.check(request)
        if not self.scopes:
            return Call(request, state.ficha, ANONYMOUS)
        app = await state.opening()
        authorization = request.headers.get("authorization")
        token = getattr(request.state, "token", None) if self.in_query else None
        cookie = _cookie(request)
        if authorization is None and token is None and cookie is not None and request.method not in SAFE_METHODS:
            check_same_origin(request)
        caller = await state.identity.caller(authorization, token=token, cookie=cookie, peer=peer_of(request))
        request.state.caller_name = caller.name
        request.state.is_operator = caller.scope in OPERATORS
        request.state.account_id = caller.account
        if caller.scope not in self.scopes:
            allowed = ", ".join(sorted(self.scopes))
            raise Refused.of(Refusal("FORBIDDEN", f"this is for {allowed} keys; yours is a {caller.scope} key."))
        request.state.usage.begin(caller)
        await request.state.usage.take_turn()
        return Call(request, app, caller)

    def check(self, request: Request) -> None:
        """Refuses a request whose headers or URL could be read in two ways."""
        _check_headers(request)
        _check_text(request)
        _check_query(request)


class OwnPages(Guard):
    """Admits anybody but web pages of other origins, which could sign somebody in or out without their knowing."""

    async def __call__(self, request: Request) -> Call:
        call = await super().__call__(request)
        if {"origin", "sec-fetch-site"} & set(request.headers.keys()):
            check_same_origin(request)
        return call


def check_same_origin(request: Request) -> None:
    """Refuses a request unless a page of this server sent it. Browsers send cookies by themselves, so another page
    could request a change with the cookie alone. `Sec-Fetch-Site` and `Origin` are set by the browser, not by the page;
    over plain HTTP the browser sends only `Origin`."""
    site, origin, host = (request.headers.get(name) for name in ("sec-fetch-site", "origin", "host"))
    is_same = origin in (f"http://{host}", f"https://{host}") if site is None else site == "same-origin"
    if not is_same:
        raise Refused.of(
            Refusal(
                "FORBIDDEN",
                "with the cookie of a sign-in, only pages of this server may change something: the request needs the "
                "header Sec-Fetch-Site: same-origin, or an Origin equal to its Host; nothing was changed.",
            )
        )


def peer_of(request: Request) -> str:
    """The caller's address, by which failed attempts are counted."""
    return request.client.host if request.client is not None else ""


def _cookie(request: Request) -> str | None:
    """The text of a sign-in's cookie. Of two cookies, browsers send the one with the longer path first."""
    for header in request.headers.getlist("cookie"):
        for part in header.split(";"):
            name, is_set, text = part.strip().partition("=")
            if name == COOKIE and is_set:
                return text
    return None


def _check_headers(request: Request) -> None:
    """Refuses a repeated header where only one is allowed: a proxy on the way might read the other one."""
    names = [name for name, _ in request.scope["headers"] if name in ONCE]
    if len(names) > len(set(names)):
        [(repeated, _)] = Counter(names).most_common(1)
        raise arg.invalid(f"the header {repeated.decode()} was sent more than once")


def _check_text(request: Request) -> None:
    """Refuses a URL whose encoded bytes are not UTF-8, such as half a surrogate pair: another text would be read."""
    for part in (request.scope.get("raw_path") or b"", request.scope["query_string"]):
        if b"%" in part:
            try:
                unquote_to_bytes(part).decode()
            except UnicodeDecodeError:
                raise arg.invalid("the URL is not UTF-8 text") from None


def _check_query(request: Request) -> None:
    """Refuses parameters that the route does not have, and repeated ones that it takes once: otherwise a mistake would
    be ignored silently."""
    if not (query := request.scope["query_string"]):
        return
    if query.count(b"&") >= MAX_PARAMETERS:
        raise arg.invalid(f"a request has at most {MAX_PARAMETERS} parameters")
    route: APIRoute = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    for dependency in route.dependant.dependencies:
        known |= {field.alias for field in dependency.query_params}
        known |= {"token"} if isinstance(dependency.call, Guard) and dependency.call.in_query else set()
    if unknown := sorted(request.query_params.keys() - known):
        there = f"it has: {', '.join(sorted(known))}" if known else "it has none"
        raise arg.invalid(f"this route has no parameter {unknown[0][:80]!r}; {there}")
    if len(request.query_params.multi_items()) > len(request.query_params):
        many = {field.alias for field in route.dependant.query_params if _takes_many(field.field_info.annotation)}
        times = Counter(name for name, _ in request.query_params.multi_items() if name not in many)
        if repeated := sorted(name for name, count in times.items() if count > 1):
            raise arg.invalid(f"the parameter {repeated[0]!r} was given more than once")


def _takes_many(annotation: object) -> bool:
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


ANONYMOUS: Final = Caller(scope="user", account=None, job=None, name="anybody", key_id=None)

Open = Annotated[Call, Depends(Guard())]
OwnPage = Annotated[Call, Depends(OwnPages())]
# For routes that change something.
Account = Annotated[Call, Depends(Guard("user", "service", "admin"))]
OneJob = Annotated[Call, Depends(Guard("user", "service", "admin", "job"))]
Service = Annotated[Call, Depends(Guard("service", "admin"))]
Admin = Annotated[Call, Depends(Guard("admin"))]
# The same for routes that only read, which a viewer may call too. A test checks that exactly the GET routes use these.
AccountReader = Annotated[Call, Depends(Guard("user", "service", "admin", "viewer"))]
JobReader = Annotated[Call, Depends(Guard("user", "service", "admin", "viewer", "job"))]
Stream = Annotated[Call, Depends(Guard("user", "service", "admin", "viewer", "job", in_query=True))]
ServiceReader = Annotated[Call, Depends(Guard("service", "admin", "viewer"))]
Viewer = Annotated[Call, Depends(Guard("admin", "viewer"))]
