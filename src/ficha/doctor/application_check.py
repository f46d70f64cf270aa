"""The application's own settings: what is missing, and what is dangerous outside of a trial."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from ..app import Ficha
from ..environment import setting
from ..signing import LEAST_BYTES
from .findings import Finding

GROUP = "application"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_MAKE_ONE = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


def application(app: Ficha) -> list[Finding]:
    """Returns the findings that need no database."""
    return [*_secret(app), *_public_url(app), *_intervals(app)]


def _secret(app: Ficha) -> Iterator[Finding]:
    if app.signer is not None:
        return
    # (If the file of the secret cannot be read, the application is not created at all.)
    found = setting(os.environ, "FICHA_SECRET")
    if found is None:
        what = "FICHA_SECRET is not set here: a server does not start without it, and workers make no links to files."
    else:
        what = f"FICHA_SECRET has fewer than {LEAST_BYTES} bytes, and a server refuses it."
    remedy = f"Set the same FICHA_SECRET for every process, also where you run this; {_MAKE_ONE}"
    yield Finding(GROUP, "SECRET_MISSING" if found is None else "SECRET_SHORT", "warning", what, remedy)


def _public_url(app: Ficha) -> Iterator[Finding]:
    if app.public_url is None:
        return
    parts = urlsplit(app.public_url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        yield Finding(
            GROUP,
            "PUBLIC_URL_NOT_HTTPS",
            "warning",
            f"The public address {parts.scheme}://{parts.hostname} is not https: keys, the cookies of sign-ins, links "
            "to files and call-backs of providers can be read on the way.",
            "Put a proxy with TLS before the server, and set FICHA_PUBLIC_URL to its https address.",
        )


def _intervals(app: Ficha) -> Iterator[Finding]:
    if app.heartbeat_s * 3 > app.lease_s:
        yield Finding(
            GROUP,
            "LEASE_SHORT",
            "warning",
            f"A lease lasts {app.lease_s:g} s and a heartbeat comes every {app.heartbeat_s:g} s: one that is late by a "
            "little costs the job its run.",
            "Make lease_s at least three times as long as heartbeat_s.",
        )
