"""The text of a database's URL: which parts of it may be shown, and hiding the others, in foreign messages too."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from .base import StoreError

T = TypeVar("T")

ABSENT: Final = "absent:"
"""The URL in a process that must not open a database: a handler's, unless its tool says otherwise. Without it, an
application that is opened there would make an SQLite file of its own."""
HIDDEN: Final = "***"
SHOWN: Final = frozenset(
    (
        *("application_name", "connect_timeout", "database", "dbname", "host", "port", "sslmode"),
        *("target_session_attrs", "user"),
    )
)
"""The parameters whose values are shown, besides Ficha's own. Any other value may be a secret, or lead to one."""
LISTEN: Final = "ficha_listen_url"
"""The parameter that is a URL itself."""
SHORTEST: Final = 4
"""A secret of fewer characters is not searched for in foreign messages: it would be found everywhere."""
_HOST: Final = r"(?:\[[^\]@/?#]*\]|[^:@\[\]/?#,]*)(?::\d*)?"
_HOSTS: Final = re.compile(f"{_HOST}(?:,{_HOST})*")
_NAME: Final = re.compile(r"[a-z_]{1,40}")


def hidden(url: str) -> str:
    """The URL without passwords and other secrets, for messages. Also for a text that is no URL."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        # A file, `memory:`, or a URL without its beginning.
        return HIDDEN if re.search(r"[@=?]", url) else url
    head, mark, query = rest.partition("?")
    if any("@" in parameter and not _is_shown(parameter) for parameter in query.split("&")):
        # The "?" may belong to a password, and then no part of the URL is what it seems to be.
        return f"{scheme}://{HIDDEN}"
    if scheme != "sqlite" or not head.startswith("/"):
        head = _hidden_head(head)
    return f"{scheme}://{head}{mark}{_hidden_query(query)}"


def url_problem(url: str) -> str | None:
    """Why the URL of a server cannot be read, without any part of it."""
    try:
        parts = urlsplit(url)
        _ = parts.port if "," not in parts.netloc else None
    except ValueError:
        return "its host or port is not valid"
    if "@" in parts.path or "#" in url or (parts.username is None and "@" in parts.query.partition("=")[0]):
        return "its password or user name has characters such as / ? # @ as they are"
    return None


def host_by_host(url: str) -> list[str]:
    """The same URL once for each of its hosts, in order."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if "," in place:
        return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in place.split(",")]
    given = dict(parameter.partition("=")[::2] for parameter in parts.query.split("&"))
    hosts, ports = (given.get(name, "").replace("%2C", ",").split(",") for name in ("host", "port"))
    if place or len(hosts) == 1:
        return [url]
    each = zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False)
    return [
        urlunsplit(parts._replace(query="&".join(f"{name}={value}" for name, value in {**given, **own}.items())))
        for own in ({"host": host, **({"port": port} if port else {})} for host, port in each)
    ]


async def naming_no_secret(url: str, connect: Callable[[], Awaitable[T]]) -> T:
    """Makes a connection. An error whose text contains a secret of the URL becomes one without the secret."""
    try:
        return await connect()
    except Exception as error:
        words = str(error)
        told = without_secrets(words, url)
        if told == words and all(without_secrets(more, url) == more for more in _causes(error)):
            raise
        raise StoreError(f"the database refused what its URL says: {told}") from None


def without_secrets(text: str, url: str) -> str:
    """The text without the secrets of a URL."""
    for secret in sorted(set(_secrets(url)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _hidden_head(head: str) -> str:
    """The part before the parameters: user, password, hosts, database."""
    user_and_password, at, place = head.rpartition("@")
    place = place.partition("#")[0]
    if at:
        user, colon, _ = user_and_password.partition(":")
        return f"{user}{colon and ':' + HIDDEN}@{place}"
    hosts, slash, database = place.partition("/")
    # A text that is not a host and port may be a user and the beginning of a password.
    return f"{hosts}{slash}{database}" if _HOSTS.fullmatch(hosts) else HIDDEN


def _hidden_query(query: str) -> str:
    return "&".join(map(_hidden_parameter, query.split("&"))) if query else ""


def _hidden_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals or _NAME.fullmatch(name) is None:
        return HIDDEN
    if name == LISTEN:
        return f"{name}={hidden(unquote(value))}"
    return parameter if _is_shown(parameter) else f"{name}={HIDDEN}"


def _is_shown(parameter: str) -> bool:
    name = parameter.partition("=")[0]
    return name in SHOWN or name.startswith("ficha_")


def _secrets(url: str) -> Iterator[str]:
    rest = url.partition("://")[2]
    head, _, query = rest.partition("?")
    found = [head.rpartition("@")[0].partition(":")[2]]
    for parameter in query.split("&"):
        name, _, value = parameter.partition("=")
        if name == LISTEN:
            yield from _secrets(unquote(value))
        elif not _is_shown(parameter):
            # `options` sets several things at once, each of which may be named by itself.
            found += [value, *re.findall(r"=(\S+)", unquote(value))]
    for text in found:
        yield from (form for form in (text, unquote(text), unquote_plus(text)) if len(form) >= SHORTEST)


def _causes(error: BaseException) -> Iterator[str]:
    """The texts of the errors that led to this one, which a traceback shows too."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield str(cause)
        cause = cause.__cause__ or cause.__context__
