"""PostgreSQL: versions, clock, dangerous settings, sessions, connections, vacuum and bloat, WAL and disk."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from ..core.policy import SECOND
from ..store.connect import migrator_for, roles_that_write
from .database import LookingAtPostgres
from .disk_space import free_space
from .findings import Finding, Severity, size
from .looked_over import LookedOver

Seen = LookedOver[LookingAtPostgres]
OLDEST: Final = 150_000
COMMITTERS: Final = 3
POOL_SIZE: Final = 4
LISTENERS: Final = 1
"""Connections that one process opens, unless its URL says otherwise."""
OFF: Final[dict[str, tuple[Severity, str]]] = {
    "fsync": ("critical", "a crash of the machine can destroy the whole database"),
    "full_page_writes": ("critical", "a crash of the machine can tear pages that nothing repairs"),
    "synchronous_commit": ("critical", "a crash can undo charges, refunds and ends of jobs that were already answered"),
    "autovacuum": ("warning", "dead rows pile up in the hot tables, and claims become slower without end"),
    "track_counts": ("warning", "autovacuum does not know which tables need it"),
}
"""Settings that must not be off, each with the severity and the consequence."""
SHOWN: Final = 3


async def versions(seen: Seen) -> AsyncIterator[Finding]:
    [(words, number, in_recovery, bytes_used)] = await seen.database.ask("server")
    seen.facts.update(postgresql=words, database_bytes=bytes_used)
    if number < OLDEST:
        what = f"PostgreSQL {words} is older than 15, the oldest that Ficha is made for."
        yield Finding("versions", "SERVER_TOO_OLD", "critical", what, "Upgrade PostgreSQL.")
    if in_recovery:
        yield Finding(
            "versions",
            "SERVER_IS_STANDBY",
            "critical",
            "The URL leads to a standby, which takes no writes.",
            "Name the primary, or promote this one; target_session_attrs=read-write in the URL finds it among several.",
        )


async def clock(seen: Seen) -> AsyncIterator[Finding]:
    asked_at = time.time_ns() // 1_000
    [(theirs,)] = await seen.database.rows(f"SELECT {seen.database.dialect.clock}")
    answered_at = time.time_ns() // 1_000
    # The server read its clock at some time from `asked_at` to `answered_at`, so the clocks differ by at least this.
    apart_s = max(asked_at - theirs, theirs - answered_at, 0) / SECOND
    seen.facts["clock_apart_s"] = round(apart_s, 3)
    if apart_s > seen.limits.clock_s:
        yield Finding(
            "clock",
            "CLOCKS_APART",
            "critical" if apart_s > 10 * seen.limits.clock_s else "warning",
            f"This machine's clock and the database's are {apart_s:.1f} s apart. Ficha goes by the database's; what is "
            "only shown here, and what signs links and tokens, goes by this one.",
            "Run a time service (chrony, systemd-timesyncd) on both machines.",
        )


async def settings(seen: Seen) -> AsyncIterator[Finding]:
    found = dict(await seen.database.ask("settings"))
    for name, (severity, what) in OFF.items():
        if found.get(name) == "off":
            remedy = f"Set {name} = on: in postgresql.conf, or see ALTER SYSTEM, ALTER DATABASE and ALTER ROLE … SET."
            yield Finding("settings", "SETTING_DANGEROUS", severity, f"{name} is off: {what}.", remedy)
    if found.get("zero_damaged_pages") == "on" or found.get("ignore_checksum_failure") == "on":
        what = "zero_damaged_pages or ignore_checksum_failure is on: damaged pages are taken for good ones."
        remedy = "Turn it off, and restore what is damaged from a back-up."
        yield Finding("settings", "SETTING_DANGEROUS", "critical", what, remedy)
    if found.get("data_checksums") == "off":
        yield Finding(
            "settings",
            "NO_CHECKSUMS",
            "note",
            "The server keeps no checksums of its pages, so a failing disk is noticed late.",
            "Turn them on with pg_checksums while the server is stopped.",
        )


async def sessions(seen: Seen) -> AsyncIterator[Finding]:
    limits = seen.limits
    found = await seen.database.ask("sessions", limits.transaction_s, limits.idle_transaction_s)
    hidden = sum(kind == "hidden" for kind, *_ in found)
    long = [row for row in found if row[0] == "long"]
    idle = [row for row in found if row[0] == "idle"]
    prepared = [row for row in found if row[0] == "prepared"]
    for code, rows, words in (
        ("TRANSACTION_LONG", long, f"open for more than {limits.transaction_s:g} s"),
        ("TRANSACTION_IDLE", idle, f"idle in a transaction for more than {limits.idle_transaction_s:g} s"),
    ):
        if rows:
            named = "; ".join(f"{who}, {seconds:.0f} s: {query[:60]!r}" for _, who, seconds, query in rows[:SHOWN])
            yield Finding(
                "sessions",
                code,
                "warning",
                f"Sessions that are {words}: {len(rows)} ({named}). Dead rows of every table stay until these end, and "
                "a search by key walks over them.",
                "End them: SELECT pg_terminate_backend(pid). Set idle_in_transaction_session_timeout for their roles.",
            )
    if prepared:
        yield Finding(
            "sessions",
            "TRANSACTION_PREPARED",
            "warning",
            f"Prepared transactions that are left open: {len(prepared)}, the oldest for {prepared[0][2]:.0f} s.",
            "COMMIT PREPARED or ROLLBACK PREPARED each of those in pg_prepared_xacts.",
        )
    if hidden:
        yield Finding(
            "sessions",
            "SESSIONS_HIDDEN",
            "note",
            f"Sessions of other roles, of which this role cannot see what they do: {hidden}.",
            "GRANT pg_monitor TO the role that runs this.",
        )


async def connections(seen: Seen) -> AsyncIterator[Finding]:
    [(used, most, here, here_most)] = await seen.database.ask("connections")
    options = seen.database.settings
    each = options.get("committers", COMMITTERS) + options.get("pool_size", POOL_SIZE) + LISTENERS
    seen.facts.update(connections=used, connections_most=most, connections_per_process=each)
    for name, count, limit in (("the server", used, most), ("this database", here, here_most)):
        if limit <= 0 or count < seen.limits.connections_share * limit:
            continue
        is_worst = count >= limit * (1 + seen.limits.connections_share) / 2
        yield Finding(
            "connections",
            "CONNECTIONS_SCARCE",
            "critical" if is_worst else "warning",
            f"{count} of the {limit} connections of {name} are in use; each process of Ficha opens up to {each}.",
            "Raise max_connections (or the limit of the database), make ficha_pool_size in the URL smaller, or put a "
            "pooler such as PgBouncer before it.",
        )


async def storage(seen: Seen) -> AsyncIterator[Finding]:
    limits = seen.limits
    for name, live, dead, vacuumed_s, is_off, whole, filled in await seen.database.ask("tables"):
        if is_off:
            yield Finding(
                "storage",
                "AUTOVACUUM_OFF",
                "warning",
                f"Autovacuum is turned off for the table {name}, so its dead rows stay.",
                f"ALTER TABLE ficha.{name} RESET (autovacuum_enabled).",
            )
        if dead > limits.dead_rows and dead > live:
            when = "never" if vacuumed_s is None else f"{vacuumed_s:.0f} s ago"
            yield Finding(
                "storage",
                "DEAD_ROWS",
                "warning",
                f"The table {name} has {dead} dead rows and {live} live ones; it was last vacuumed {when}.",
                f"See above for long transactions and slots that keep them alive; else VACUUM ficha.{name}, and give "
                "autovacuum more workers.",
            )
        if filled is not None and whole - filled > max(limits.unused_bytes, limits.unused_share * whole):
            yield Finding(
                "storage",
                "TABLE_MOSTLY_EMPTY",
                "note",
                f"About {size(whole - filled)} of the {size(whole)} of the table {name} is empty. New rows use it.",
                f"To give it back, stop every process and run VACUUM FULL ficha.{name}, which locks the table. If it "
                "comes again, look for transactions and slots that keep dead rows alive.",
            )


async def strangers(seen: Seen) -> AsyncIterator[Finding]:
    [(own,)] = await seen.database.rows("SELECT current_user::text")
    writers = await roles_that_write(migrator_for(seen.app.database, seen.app.schema))
    others = [name for name in writers if name != own]
    if others:
        yield Finding(
            "strangers",
            "STRANGERS_WRITE",
            "warning",
            f"Roles that may write Ficha's tables besides their owner: {', '.join(others)}. Each could set a balance.",
            "REVOKE the right, unless it is the role of your application: then GRANT it the owner's role instead.",
        )


async def standbys(seen: Seen) -> AsyncIterator[Finding]:
    """Of the synchronous ones alone: without them every commit waits."""
    [(names, commits, hidden, followers)] = await seen.database.ask("standbys")
    if not names or commits in ("off", "local") or followers:
        return
    if hidden:
        what = "Whether the synchronous standbys follow is hidden from this role."
        yield Finding("standbys", "STANDBYS_HIDDEN", "note", what, "GRANT pg_monitor TO the role that runs this.")
        return
    yield Finding(
        "standbys",
        "STANDBY_AWAY",
        "critical",
        f"synchronous_standby_names is {names}, and no such standby follows: every commit waits for one.",
        "Start the standby; if it is lost for good, take it out of synchronous_standby_names and reload.",
    )


async def wal(seen: Seen) -> AsyncIterator[Finding]:
    limits = seen.limits
    for name, is_active, held, status in await seen.database.ask("slots"):
        is_lost = status in ("lost", "unreserved")
        if is_lost or held > limits.slot_wal_bytes:
            state = "in use" if is_active else "used by nobody"
            yield Finding(
                "wal",
                "SLOT_HOLDS_WAL",
                "critical" if is_lost else "warning",
                f"The replication slot {name}, {state}, holds back {size(held)} of WAL"
                + (" and has lost what it needs." if is_lost else ", which grows until the disk is full."),
                f"See that its reader runs again; if it is gone: SELECT pg_drop_replication_slot('{name}'). "
                "max_slot_wal_keep_size bounds what slots may hold.",
            )
    [(failed, fails_now)] = await seen.database.ask("archiver")
    if fails_now:
        yield Finding(
            "wal",
            "ARCHIVING_FAILS",
            "critical",
            f"PostgreSQL could not archive its WAL ({failed} failures, the last one after the last success): it keeps "
            "all of it, and a restore to a point in time ends before that.",
            "See the server's log for what archive_command says.",
        )
    [(length,)] = await seen.database.ask("wal_size")
    seen.facts["wal_bytes"] = length
    if length > limits.wal_bytes:
        yield Finding(
            "wal",
            "WAL_LONG",
            "warning",
            f"The server's WAL has {size(length)}.",
            "Look for slots and archiving above; else max_wal_size and wal_keep_size allow as much.",
        )


async def disk(seen: Seen) -> AsyncIterator[Finding]:
    [(is_socket, folder, started_at)] = await seen.database.ask("data_folder")
    if folder is not None and _is_here(folder, started_at, is_socket=is_socket):
        for finding in free_space("disk", folder, "the database", seen.limits):
            yield finding
        return
    why = (
        "this role may not know where the server keeps its data"
        if folder is None
        else f"the server's folder {folder} is not on this machine, or this user may not look into it"
    )
    yield Finding(
        "disk",
        "DISK_NOT_SEEN",
        "note",
        f"How full the database's disk is was not checked: {why}. PostgreSQL itself does not report it.",
        "Watch the disk on the database's machine, or with the provider's figures.",
    )


def _is_here(folder: str, started_at: int, *, is_socket: bool) -> bool:
    """Whether the server that was asked keeps its data in this folder of this machine. A tunnel ends here too, so over
    TCP the time at which the server was started has to agree."""
    if is_socket:
        return os.path.isdir(folder)
    try:
        with open(os.path.join(folder, "postmaster.pid")) as file:
            return abs(int(file.read().split("\n")[2]) - started_at) <= 1
    except (OSError, ValueError, IndexError):
        return False


CHECKS: Any = {
    "versions": versions,
    "clock": clock,
    "settings": settings,
    "sessions": sessions,
    "connections": connections,
    "storage": storage,
    "strangers": strangers,
    "standbys": standbys,
    "wal": wal,
    "disk": disk,
}
