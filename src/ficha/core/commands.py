"""The commands. A command is plain data and holds everything that a rule cannot compute (identifiers, jitter, the cost
of a payload), so that deciding it twice gives the same answer."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .checkpoints import Checkpoints
from .policy import TurnTerms
from .records import ApiKeyScope, JobSpec, KeyScope


class Command(Struct, frozen=True, gc=False, tag=True):
    """The base of all commands. They are tagged with their name, so that saved ones can be read and decided again."""


class OpenAccount(Command, frozen=True):
    """Opens an account. With `exist_ok`, one that is open already stays as it is, its plan and balance included."""

    account_id: str
    plan: str
    credits: int = 0
    reason: str = "opening balance"
    exist_ok: bool = False


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
    plans: tuple[str, ...] | None = None
    """The only plans that may submit it; None where any may, and where the application itself submits."""
    provider: str | None = None
    """The external provider whose outage refuses the submit; None if the job waits for the end of an outage."""
    files: tuple[str, ...] = ()
    """The files that its payload names."""


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
    """Leases up to `limit` ready jobs of the pools, best rank first. With `starts`, their handlers begin at once."""

    worker: str
    pools: tuple[str, ...]
    limit: int = 1
    starts: bool = False


class ClaimJob(Command, frozen=True):
    """Leases one job by its id, for a caller that was given this id; `pool` is the job's own."""

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
    """What the tool declares; None if it declares none, so that any name may be saved."""


class SaveStep(Command, frozen=True):
    job_id: str
    epoch: int
    name: str
    result_json: str


class Report(Command, frozen=True):
    """The job's progress (percent) and partial result (JSON text); None leaves either as it was."""

    job_id: str
    epoch: int
    progress: int | None = None
    partial_json: str | None = None


class Note(Command, frozen=True):
    """An event for the job's history, from its handler."""

    job_id: str
    epoch: int
    line: str


class Completed(Struct, frozen=True, gc=False, tag=True):
    """The run succeeded. With `delivered` below the job's units, the rest is refunded.

    provider_cost: what an external provider takes for it, in millionths of the operator's currency; None if unknown.
    """

    result_json: str
    delivered: int | None = None
    of: int | None = None
    provider_cost: int | None = None


class Failed(Struct, frozen=True, gc=False, tag=True):
    """This run failed. A `final` error is not retried, whatever attempts are left.

    for_user: the tool wrote `error` for the job's owner. Any other error text is for operators.
    traceback: for operators, kept in the job's history.
    provider_cost: as in `Completed`: a provider may take something for a failure too.
    """

    error: str
    final: bool = False
    for_user: bool = False
    traceback: str | None = None
    provider_cost: int | None = None


class RetryLater(Struct, frozen=True, gc=False, tag=True):
    """The handler asks to be run again; it does not count as a failure."""

    after_ms: int
    reason: str | None = None


class CancelledByHandler(Struct, frozen=True, gc=False, tag=True):
    reason: str


class AcceptedByProvider(Struct, frozen=True, gc=False, tag=True):
    """An external provider has the work and will call back under `ref`.

    poll_ms: how long to wait for that before the provider is asked; None: it is never asked.
    """

    ref: str
    poll_ms: int | None = None


class Interrupted(Struct, frozen=True, gc=False, tag=True):
    """The run was interrupted from outside: the worker stops, or (`lost`) its process died, which counts as a
    recovery."""

    reason: str
    lost: bool = False


class TimedOut(Struct, frozen=True, gc=False, tag=True):
    """The run reached the job's time limit. This ends the job, whatever attempts are left."""


Ending = Completed | Failed | RetryLater | CancelledByHandler | AcceptedByProvider | Interrupted | TimedOut


class Finish(Command, frozen=True):
    """How a run ended. `epoch` fences a worker; a provider's call-back, which is verified otherwise, has none."""

    job_id: str
    ending: Ending
    epoch: int | None = None
    jitter: float = 0.0
    """A number from 0 up to 1, drawn by the caller, that spreads the backoff."""
    account_id: str | None = None
    """When given, another account's job is not found."""
    attempt: int | None = None
    """For what a provider says: the failed runs before the one that it speaks of. What it says of another is late."""


Verdict = Literal["verified", "unsigned", "unread", "forged"]
"""What is thought of a call-back: it proves who sent it; its provider signs nothing; it could not be checked now; it is
not the provider's. Of a forged one nothing is believed; all others have the job's token, and are a reason to ask."""


class NoteCallback(Command, frozen=True):
    """A provider called back, with the token of the job's run: keeps what it said, and has the provider asked at once.

    attempt: the failed runs before that run. ref: the provider's reference that it names, if any. told: what it says of
    the work (JSON text), if it is verified.
    """

    job_id: str
    attempt: int
    verdict: Verdict
    ref: str | None = None
    headers: dict[str, str] = {}
    body: str = ""
    told: str | None = None


class HoldPoll(Command, frozen=True):
    """Takes a job whose provider is to be asked now, for so long: whoever holds it asks, and is taken for dead after
    that. With `held_at`, renews the hold that lasts until then."""

    job_id: str
    hold_ms: int
    held_at: int | None = None


class EndPoll(Command, frozen=True):
    """The provider was asked, and the work goes on: it is asked again later, unless a call-back came meanwhile.

    held_at: until when the job was held. after_ms: not before that time, as the provider said. progress: percent.
    """

    job_id: str
    held_at: int
    poll_ms: int
    after_ms: int = 0
    progress: int | None = None


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
    """Does what is due for a job by now (see `recover.py`), if anything is."""

    job_id: str


class ExpireReservation(Command, frozen=True):
    """Marks a reservation past its time as expired, or deletes one that ended long ago."""

    reservation_id: str


class ForgetKey(Command, frozen=True):
    account_id: str
    scope: KeyScope
    key: str


class Requeue(Command, frozen=True):
    """Runs a dead letter again as the new job `new_id`, with a new charge. The old job stays failed and refunded."""

    job_id: str
    new_id: str


class ToolTerms(Struct, frozen=True, gc=False):
    """Of a tool, what a submit takes into account beside the job itself; the same as in `NewJob`."""

    priority: int = 0
    plans: tuple[str, ...] | None = None
    provider: str | None = None


class Resubmit(Command, frozen=True):
    """Runs a dead letter again as `Requeue` does, but for the account's own user: the limits of a submit apply.

    tools: those that users may call, by name; a job of any other tool is refused.
    """

    account_id: str
    """Another account's job is not found."""
    job_id: str
    new_id: str
    tools: dict[str, ToolTerms]


class Discard(Command, frozen=True):
    """Removes a job from the dead-letter list."""

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
    """Registers a worker or renews its registration; with `stops`, ends it."""

    name: str
    host: str
    pid: int
    pools: tuple[str, ...]
    concurrency: int
    version: str
    heartbeat_ms: int
    started_at: int | None = None
    """When it first registered, as the first call returned it; None for that first call."""
    stops: bool = False
    problem: str | None = None


class Elect(Command, frozen=True):
    """Asks for a shared duty; granted if it is free, expired or the caller's own."""

    name: str
    owner: str
    ttl_ms: int


class CreateApiKey(Command, frozen=True):
    """Stores a key by the digest of its text. The text itself is made outside and never stored."""

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
    """A key was used just now. This overwrites the time of its last use."""

    key_id: str


class HoldHook(Command, frozen=True):
    """Takes a hook that is due, for so long: whoever holds it runs it, and is taken for dead after that."""

    name: str
    job_id: str
    hold_ms: int


class EndHook(Command, frozen=True):
    """The hook has been run, or (`error`) it failed and is to be run again. `attempt` says which run it was, and fences
    one that was taken for dead."""

    name: str
    job_id: str
    attempt: int
    error: str | None = None


class TakeTurn(Command, frozen=True):
    """Reserves one request to a provider: the caller waits for as long as the outcome says, then sends it."""

    provider: str
    turn_id: str
    terms: TurnTerms = TurnTerms()


class EndTurn(Command, frozen=True):
    """The request is over. `is_fault`: whether the provider failed; None if nothing is known of that, as when the
    caller was cancelled."""

    provider: str
    turn_id: str
    terms: TurnTerms = TurnTerms()
    is_fault: bool | None = False
    error: str | None = None


class OpenBreaker(Command, frozen=True):
    """Keeps all requests from a provider for so long, whatever its requests say. Then a probe goes out.

    is_declared: whether the application has a provider of that name; of any other there must be a state.
    """

    provider: str
    open_ms: int
    is_declared: bool = False
    reason: str | None = None


class CloseBreaker(Command, frozen=True):
    """Lets requests go to a provider again, at once."""

    provider: str
    is_declared: bool = False


class FileRun(Struct, frozen=True, gc=False):
    """The run that makes a file as a result: one that holds its lease (`epoch`), or one that a provider works on, which
    is known by how many runs failed before it (`attempts`)."""

    job_id: str
    epoch: int | None = None
    attempts: int | None = None


class BeginFile(Command, frozen=True):
    """Takes the room for a file before its bytes come: at least `least` of them, and at most `most` (None: as many as
    are allowed)."""

    file_id: str
    account_id: str
    name: str
    least: int = 0
    most: int | None = None
    reservation_id: str | None = None
    run: FileRun | None = None
    """None for an upload."""


class StoreFile(Command, frozen=True):
    """The bytes have come, and are kept under the file's id: how many they really are, of which type, and their
    digest."""

    file_id: str
    account_id: str
    size: int
    media_type: str
    digest: str
    run: FileRun | None = None


class RemoveFile(Command, frozen=True):
    """Removes a file; its bytes are deleted soon after. One that is uploaded is only removed by its uploader, who has
    stopped (`aborts`), and removes nothing else."""

    file_id: str
    account_id: str
    aborts: bool = False


class ExpireFile(Command, frozen=True):
    """Does what is due for a file by now (see `files.py`), if anything is. `job_id` is that of a result."""

    file_id: str
    account_id: str
    job_id: str | None = None


class ForgetFile(Command, frozen=True):
    """Deletes the row of a removed file, once its bytes are deleted."""

    file_id: str


class RemoveWork(Command, frozen=True):
    """Removes a piece of completed work from its owner's library.

    files: those of the job, as they were found. Those that other jobs have taken too stay.
    """

    account_id: str
    job_id: str
    files: tuple[str, ...] = ()


class AddEndpoint(Command, frozen=True):
    """Adds an address that is told of events: of an account's, or (owner "") of every account's. No events: all."""

    owner: str
    endpoint_id: str
    url: str
    secret: str
    events: tuple[str, ...] = ()
    description: str = ""


class ChangeEndpoint(Command, frozen=True):
    """Removes an endpoint, or enables one that was disabled."""

    owner: str
    endpoint_id: str
    to: Literal["removed", "enabled"]


class RotateSecret(Command, frozen=True):
    """Messages are signed with a new secret from now on, and for `overlap_ms` with the earlier ones too."""

    owner: str
    endpoint_id: str
    secret: str
    overlap_ms: int


class PingEndpoint(Command, frozen=True):
    """Sends a test to an endpoint."""

    owner: str
    endpoint_id: str
    delivery_id: str
    body: str


class MakeDeliveries(Command, frozen=True):
    """Makes the messages that a hook owes, and ends it. `attempt` is that of the hook; `deliveries` names the owner and
    id of each endpoint that may want it, and the id of the message."""

    hook: str
    job_id: str
    account_id: str
    attempt: int
    event: str
    body: str
    deliveries: tuple[tuple[str, str, str], ...]


class HoldDelivery(Command, frozen=True):
    """Takes a message that is due, to send it; after `hold_ms` whoever took it is taken for dead."""

    delivery_id: str
    owner: str
    hold_ms: int


class EndDelivery(Command, frozen=True):
    """What came of an attempt: the status of the answer, or why there was none. `owner` is given where the endpoint may
    be judged by it: not where one that works goes on working."""

    delivery_id: str
    owner: str | None
    attempt: int
    status: int | None = None
    error: str | None = None
    jitter: float = 0.0


class ResendDelivery(Command, frozen=True):
    delivery_id: str
    owner: str


class ForgetDelivery(Command, frozen=True):
    """Deletes a message that ended long ago."""

    delivery_id: str


class ActingAs(Command, frozen=True):
    """A command with the name of its caller: unless it is refused, it writes a line to the audit log."""

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
    | Resubmit
    | Discard
    | DeclarePool
    | PausePool
    | ResizePool
    | RegisterWorker
    | Elect
    | CreateApiKey
    | RevokeApiKey
    | UseApiKey
    | HoldHook
    | EndHook
    | TakeTurn
    | EndTurn
    | OpenBreaker
    | CloseBreaker
    | BeginFile
    | StoreFile
    | RemoveFile
    | ExpireFile
    | ForgetFile
    | NoteCallback
    | HoldPoll
    | EndPoll
    | RemoveWork
    | AddEndpoint
    | ChangeEndpoint
    | RotateSecret
    | PingEndpoint
    | MakeDeliveries
    | HoldDelivery
    | EndDelivery
    | ResendDelivery
    | ForgetDelivery
)
AnyCommand = UnwrappedCommand | ActingAs


def unwrapped(command: Command) -> Command:
    """The command itself, without the caller's name."""
    return command.command if type(command) is ActingAs else command
