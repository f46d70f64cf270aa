"""What must be loaded before a batch of commands can be decided.

`needs` looks at the commands alone. A store loads exactly what it names, in the order that keeps concurrent batches
apart: accounts first (locked, in key order), then the rest. `decide` fails loudly if it looks at anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct, field

from . import commands as c
from .records import KeyScope

PROMOTIONS_PER_SLOT = 2
"""Parked jobs that one freed slot may promote: one takes its place, one catches up after a raised limit."""

KeyName = tuple[str, KeyScope, str]
"""An account, a scope and the caller's key."""


class Needs(Struct):
    """Keys and scans to load.

    accounts: by id, locked.
    jobs: by id, their hot row locked, without locking their account.
    owned_jobs: by id, their hot row locked after locking their account, with up to `PROMOTIONS_PER_SLOT` parked
        jobs of the account for each job named.
    payloads: ids among `owned_jobs` whose payload is wanted too. Where `ready` is wanted, the parked jobs that are
        loaded come with their payload as well: a claim may take what the same batch promoted.
    steps: (job, step name), the stored result.
    keys: by name, each with the job it led to, if any.
    reservations: by id, after locking their account.
    reservations_of: accounts whose active reservations are wanted.
    parked_of: accounts of which all parked jobs are wanted.
    pools: by name, locked where it has a limit and a claim asks for it.
    resized: pools that a command of this batch may give a limit.
    ready: how many of the best ready jobs of each pool, with payload and, where it has a limit or may get one, the
        pool's occupied slots; rows that another batch holds are skipped.
    contents: (tool, content hash), with the result.
    leaders: by name, locked.
    batches: by id; those of an account come and stay under its lock.
    api_keys: by id, under the one lock that all changes of API keys share.
    api_keys_of: names of which all keys that were not revoked are wanted, under the same lock.
    """

    accounts: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    owned_jobs: set[str] = field(default_factory=set)
    payloads: set[str] = field(default_factory=set)
    steps: set[tuple[str, str]] = field(default_factory=set)
    keys: set[KeyName] = field(default_factory=set)
    reservations: set[str] = field(default_factory=set)
    reservations_of: set[str] = field(default_factory=set)
    parked_of: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    resized: set[str] = field(default_factory=set)
    ready: dict[str, int] = field(default_factory=dict)
    contents: set[tuple[str, str]] = field(default_factory=set)
    leaders: set[str] = field(default_factory=set)
    batches: set[str] = field(default_factory=set)
    api_keys: set[str] = field(default_factory=set)
    api_keys_of: set[str] = field(default_factory=set)


def needs(batch: Iterable[c.Command]) -> Needs:
    """What `decide` will look at for these commands."""
    wanted = Needs()
    for command in batch:
        _add(wanted, command)  # type: ignore[arg-type]
    if wanted.ready:
        # A job named in the batch may leave the queue before a claim of the same batch reaches it.
        spare = len(wanted.owned_jobs)
        wanted.ready = {pool: limit + spare for pool, limit in wanted.ready.items()}
        # Or it may come back to the queue, and be claimed.
        wanted.payloads |= wanted.owned_jobs
    return wanted


def _add(wanted: Needs, command: c.AnyCommand) -> None:
    match command:
        case c.Submit():
            wanted.accounts.add(command.account_id)
            wanted.reservations_of.add(command.account_id)
            if command.key is not None:
                wanted.keys.add((command.account_id, "submit", command.key))
            if command.reservation_id is not None:
                wanted.reservations.add(command.reservation_id)
            for job in command.jobs:
                if job.content_hash:
                    wanted.contents.add((job.tool, job.content_hash))
            if command.joins and command.batch_id is not None:
                wanted.batches.add(command.batch_id)
        case c.Claim():
            wanted.pools.update(command.pools)
            for pool in command.pools:
                wanted.ready[pool] = wanted.ready.get(pool, 0) + command.limit
        case c.ClaimJob():
            wanted.owned_jobs.add(command.job_id)
            wanted.pools.add(command.pool)
            wanted.ready.setdefault(command.pool, 0)
        case c.Start() | c.Heartbeat() | c.SaveCheckpoint() | c.Report() | c.Note():
            wanted.jobs.add(command.job_id)
        case c.SaveStep():
            wanted.jobs.add(command.job_id)
            wanted.steps.add((command.job_id, command.name))
        case c.Finish() | c.Cancel() | c.Recover() | c.Discard():
            wanted.owned_jobs.add(command.job_id)
        case c.Requeue():
            wanted.owned_jobs.add(command.job_id)
            wanted.payloads.add(command.job_id)
        case c.OpenAccount():
            wanted.accounts.add(command.account_id)
        case c.ChangePlan():
            wanted.accounts.add(command.account_id)
            wanted.parked_of.add(command.account_id)
        case c.Credit():
            wanted.accounts.add(command.account_id)
            if command.key is not None:
                wanted.keys.add((command.account_id, "grant", command.key))
        case c.Reserve():
            wanted.accounts.add(command.account_id)
            wanted.reservations_of.add(command.account_id)
            wanted.reservations.add(command.reservation_id)
        case c.Consume() | c.Release() | c.ExpireReservation():
            wanted.reservations.add(command.reservation_id)
        case c.ForgetKey():
            wanted.accounts.add(command.account_id)
            wanted.keys.add((command.account_id, command.scope, command.key))
        case c.DeclarePool() | c.ResizePool():
            wanted.pools.add(command.name)
            wanted.resized.add(command.name)
        case c.PausePool():
            wanted.pools.add(command.name)
        case c.Elect():
            wanted.leaders.add(command.name)
        case c.RegisterWorker() | c.UseApiKey():
            pass  # A sign of life stands, whatever was said before.
        case c.CreateApiKey():
            if command.account_id is not None:
                wanted.accounts.add(command.account_id)
            wanted.api_keys.add(command.key_id)
            wanted.api_keys_of.add(command.name)
        case c.RevokeApiKey():
            wanted.api_keys.add(command.key_id)
        case c.ActingAs():
            _add(wanted, command.command)
        case _:
            assert_never(command)
