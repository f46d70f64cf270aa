"""What a caller can ask for. A command is plain data: everything it needs that is not a rule (identifiers, jitter,
the cost of a payload) is in it, so that deciding it twice gives the same answer."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .checkpoints import Checkpoints
from .records import ApiKeyScope, JobSpec, KeyScope


class Command(Struct, frozen=True, gc=False, tag=True):
    """The base of all commands. Tagged with their name, so that saved commands can be read back and decided again."""


class OpenAccount(Command, frozen=True):
    account_id: str
    plan: str
    credits: int = 0
    reason: str = "opening balance"


class ChangePlan(Command, frozen=True):
    account_id: str
    plan: str


class Credit(Command, frozen=True):
    """Adds to a balance (`grant`) or corrects it, up or down (`adjust`). A repeated `key` changes nothing."""

    account_id: str
    amount: int
    kind: Literal["grant", "adjust"]
    reason: str | None = None
    key: str | None = None


class NewJob(Struct, frozen=True, gc=False):
    """What a tool makes of one payload: the part of a submit that becomes one job."""

    id: str
    spec: JobSpec
    payload: str
    priority: int = 0
    """The tool's offset: added to the plan's priority."""
    max_wait_ms: int | None = None


class Submit(Command, frozen=True):
    """Creates and charges all of `jobs`, or none. More than one job needs a `batch_id`, of a new batch or (`joins`) of
    one that the account has already."""

    account_id: str
    jobs: tuple[NewJob, ...]
    fingerprint: str = ""
    key: str | None = None
    key_ttl_ms: int | None = None
    reservation_id: str | None = None
    batch_id: str | None = None
    run_at: int | None = None
    delay_ms: int = 0
    joins: bool = False


class Claim(Command, frozen=True):
    """Takes up to `limit` ready jobs of the pools, best rank first. With `starts`, their handlers begin at once."""

    worker: str
    pools: tuple[str, ...]
    limit: int = 1
    starts: bool = False


class ClaimJob(Command, frozen=True):
    """Takes one job by its id, for whoever was told to do this very job; `pool` is the job's own."""

    worker: str
    pool: str
    job_id: str
    starts: bool = False


class Heartbeat(Command, frozen=True):
    """The worker still holds the job. With `starts`, its handler begins now: `starting` becomes `running`."""

    job_id: str
    epoch: int
    starts: bool = False


class SaveCheckpoint(Command, frozen=True):
    job_id: str
    epoch: int
    name: str
    progress: int = 0
    data: str = "{}"
    declared: Checkpoints | None = None
    """What the tool declares; None where it declares none and any name is taken."""


class SaveStep(Command, frozen=True):
    job_id: str
    epoch: int
    name: str
    result_json: str


class Report(Command, frozen=True):
    """How far the job is (percent), and what of its result is there already (JSON text); None leaves it as it was."""

    job_id: str
    epoch: int
    progress: int | None = None
    partial_json: str | None = None


class Note(Command, frozen=True):
    """A line for the job's history, from its handler."""

    job_id: str
    epoch: int
    line: str


class Completed(Struct, frozen=True, gc=False, tag=True):
    """All of it worked. With `delivered` below the job's units, the rest is refunded."""

    result_json: str
    delivered: int | None = None
    of: int | None = None


class Failed(Struct, frozen=True, gc=False, tag=True):
    """This run failed. A `final` error is not retried, whatever attempts are left."""

    error: str
    final: bool = False


class RetryLater(Struct, frozen=True, gc=False, tag=True):
    """The handler asks to be run again; it does not count as a failure."""

    after_ms: int
    reason: str | None = None


class CancelledByHandler(Struct, frozen=True, gc=False, tag=True):
    reason: str


class AcceptedByProvider(Struct, frozen=True, gc=False, tag=True):
    """An external provider has the work and will call back under `ref`."""

    ref: str


class Interrupted(Struct, frozen=True, gc=False, tag=True):
    """The run was broken off through no word of its handler: the worker stops, or (`lost`) its process died, which
    counts as a recovery."""

    reason: str
    lost: bool = False


class TimedOut(Struct, frozen=True, gc=False, tag=True):
    """The run took as long as its job may run. This ends the job, whatever attempts are left."""


Ending = Completed | Failed | RetryLater | CancelledByHandler | AcceptedByProvider | Interrupted | TimedOut


class Finish(Command, frozen=True):
    """How a run ended. `epoch` fences a worker; a call-back that proves itself otherwise leaves it out."""

    job_id: str
    ending: Ending
    epoch: int | None = None
    jitter: float = 0.0
    """A number from 0 up to 1, drawn by the caller, that spreads the backoff."""
    account_id: str | None = None
    """When given, another account's job is not found."""


class CancelJob(Command, frozen=True):
    job_id: str
    account_id: str | None = None
    """When given, another account's job is not found."""
    reason: str | None = None


class Reserve(Command, frozen=True):
    reservation_id: str
    account_id: str
    ttl_ms: int | None = None


class EndReservation(Command, frozen=True):
    """Ends a reservation because its job exists (`consumed`) or will not (`released`)."""

    reservation_id: str
    state: Literal["consumed", "released"]
    account_id: str | None = None


class Recover(Command, frozen=True):
    """Does whatever is due for a job by now (see `recover.py`); nothing, if nothing is."""

    job_id: str


class ExpireReservation(Command, frozen=True):
    reservation_id: str


class ForgetKey(Command, frozen=True):
    account_id: str
    scope: KeyScope
    key: str


class Requeue(Command, frozen=True):
    """Runs a dead letter again, as the new job `new_id`, charged anew: the old job's end and refund stand."""

    job_id: str
    new_id: str


class Discard(Command, frozen=True):
    """Takes a job off the dead-letter list."""

    job_id: str


class DeclarePool(Command, frozen=True):
    name: str
    slots: int | None


class PausePool(Command, frozen=True):
    name: str
    paused: bool = True


class ResizePool(Command, frozen=True):
    """Overrides the declared slots; None returns to them."""

    name: str
    resized: int | None


class RegisterWorker(Command, frozen=True):
    """A worker says that it is there, or (`stops`) that it goes."""

    name: str
    host: str
    pid: int
    pools: tuple[str, ...]
    concurrency: int
    version: str
    heartbeat_ms: int
    started_at: int | None = None
    """What its first word led to; None for that first word."""
    stops: bool = False


class Elect(Command, frozen=True):
    """Asks for a shared duty: granted when it is free, expired or one's own."""

    name: str
    owner: str
    ttl_ms: int


class CreateApiKey(Command, frozen=True):
    """Makes a key known by the digest of its text, which is drawn outside and never comes here."""

    key_id: str
    name: str
    hint: str
    digest: str
    scope: ApiKeyScope
    account_id: str | None = None
    ttl_ms: int | None = None


class RevokeApiKey(Command, frozen=True):
    key_id: str


class UseApiKey(Command, frozen=True):
    """A key was used just now. Like a worker's word it stands, whatever was said before."""

    key_id: str


class ActingAs(Command, frozen=True):
    """A command with the name of who gives it: unless it is refused, it leaves a line in the audit log."""

    actor: str
    command: UnwrappedCommand


UnwrappedCommand = (
    OpenAccount
    | ChangePlan
    | Credit
    | Submit
    | Claim
    | ClaimJob
    | Heartbeat
    | SaveCheckpoint
    | SaveStep
    | Report
    | Note
    | Finish
    | CancelJob
    | Reserve
    | EndReservation
    | Recover
    | ExpireReservation
    | ForgetKey
    | Requeue
    | Discard
    | DeclarePool
    | PausePool
    | ResizePool
    | RegisterWorker
    | Elect
    | CreateApiKey
    | RevokeApiKey
    | UseApiKey
)
AnyCommand = UnwrappedCommand | ActingAs


def unwrapped(command: Command) -> Command:
    """The command itself, whoever gives it."""
    return command.command if type(command) is ActingAs else command
