"""What live processes show of themselves: secrets that differ, and machines whose clock is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..core.policy import SECOND
from ..engine.process_signs import CLOCK, KEPT_S, SECRET
from .database import Looking
from .findings import Finding
from .looked_over import LookedOver


async def signs(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    sql = seen.database.dialect
    [(now,)] = await seen.database.rows(f"SELECT {sql.clock}")
    rows = await seen.database.ask("signs", until=sql.read("expires_at", "instant"))
    hosts = {name.removeprefix(SECRET): owner for name, owner, until in rows if name.startswith(SECRET) and until > now}
    own = seen.app.fingerprint
    if len(hosts) > 1:
        named = ", ".join(sorted(set(hosts.values())))
        yield Finding(
            "signs",
            "SECRETS_DIFFER",
            "critical",
            f"Live processes have {len(hosts)} different FICHA_SECRETs (among others on {named}): each refuses the "
            "tokens, sign-ins, links and call-backs that the others signed.",
            "Give all of them the same FICHA_SECRET. After a change of the secret this ends within three minutes.",
        )
    elif own is not None and hosts and own not in hosts:
        yield Finding(
            "signs",
            "SECRET_OTHER_HERE",
            "note",
            f"FICHA_SECRET here is not that of the live processes (such as on {next(iter(hosts.values()))}).",
            "Run this with the servers' environment, or give this machine their secret.",
        )
    for name, apart, until in sorted(rows):
        if not name.startswith(CLOCK) or until < now - int(KEPT_S * SECOND):
            continue
        seconds = abs(float(apart))
        if seconds > seen.limits.clock_s:
            yield Finding(
                "signs",
                "CLOCK_OF_HOST_APART",
                "critical" if seconds > 10 * seen.limits.clock_s else "warning",
                f"The clock of {name.removeprefix(CLOCK)} is {seconds:.1f} s "
                f"{'ahead of' if float(apart) > 0 else 'behind'} the database's.",
                "Run a time service (chrony, systemd-timesyncd) there: what it signs or shows goes by its clock.",
            )
