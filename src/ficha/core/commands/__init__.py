"""The commands. A command is plain data and holds everything that a rule cannot compute (identifiers, jitter, the cost
of a payload), so that deciding it twice gives the same answer.

Each noun has a file; everything is imported from here.
"""

from __future__ import annotations

from .accounts import ChangePlan, Credit, ForgetKey, OpenAccount, RecountAccount
from .api_keys import CreateApiKey, RevokeApiKey, UseApiKey
from .base import Command
from .brakes import Braked, CloseSubmits, HoldBack, PauseTool, SettleTool
from .bulk_acts import AdvanceBulkAct, BeginBulkAct, HoldBulkAct, StopBulkAct
from .configuration import NoteConfiguration
from .endings import (
    AcceptedByProvider,
    CancelledByHandler,
    Completed,
    Ending,
    Failed,
    Finish,
    Interrupted,
    RetryLater,
    TimedOut,
)
from .figures import CorrectQueue, FoldFigures, ForgetRollups, NoteVerification
from .files import BeginFile, ExpireFile, FileRun, ForgetFile, RemoveFile, RemoveWork, StoreFile
from .hooks import DeclareHook, EndHook, ForgetHook, HoldHook
from .jobs import CancelJob, Discard, NewJob, Recover, RefundJob, Requeue, Resubmit, Submit, ToolTerms
from .leases import Claim, ClaimJob, Heartbeat, Note, Report, SaveCheckpoint, SaveStep
from .pools import DeclarePool, Elect, PausePool, RegisterWorker, ResizePool
from .providers import CloseBreaker, EndPoll, EndTurn, HoldPoll, NoteCallback, NoteStart, OpenBreaker, TakeTurn, Verdict
from .reservations import EndReservation, ExpireReservation, Reserve
from .retention import CloseAccount, EraseRows, MoveRetention, OldJob, PruneJobs
from .schedules import DeclareSchedule, FireSchedule, PauseSchedule, RunSchedule
from .sessions import ChangeSession, EndSession, HearSession
from .webhooks import (
    AddEndpoint,
    ChangeEndpoint,
    EndDelivery,
    ForgetDelivery,
    HoldDelivery,
    MakeDeliveries,
    PingEndpoint,
    ResendDelivery,
    RotateSecret,
)

__all__ = [
    "AcceptedByProvider",
    "ActingAs",
    "AddEndpoint",
    "AdvanceBulkAct",
    "AnyCommand",
    "BeginBulkAct",
    "BeginFile",
    "Braked",
    "CancelJob",
    "CancelledByHandler",
    "ChangeEndpoint",
    "ChangePlan",
    "ChangeSession",
    "Claim",
    "ClaimJob",
    "CloseAccount",
    "CloseBreaker",
    "CloseSubmits",
    "Command",
    "Completed",
    "CorrectQueue",
    "CreateApiKey",
    "Credit",
    "DeclareHook",
    "DeclarePool",
    "DeclareSchedule",
    "Discard",
    "Elect",
    "EndDelivery",
    "EndHook",
    "EndPoll",
    "EndReservation",
    "EndSession",
    "EndTurn",
    "Ending",
    "EraseRows",
    "ExpireFile",
    "ExpireReservation",
    "Failed",
    "FileRun",
    "Finish",
    "FireSchedule",
    "FoldFigures",
    "ForgetDelivery",
    "ForgetFile",
    "ForgetHook",
    "ForgetKey",
    "ForgetRollups",
    "HearSession",
    "Heartbeat",
    "HoldBack",
    "HoldBulkAct",
    "HoldDelivery",
    "HoldHook",
    "HoldPoll",
    "Interrupted",
    "MakeDeliveries",
    "MoveRetention",
    "NewJob",
    "Note",
    "NoteCallback",
    "NoteConfiguration",
    "NoteStart",
    "NoteVerification",
    "OldJob",
    "OpenAccount",
    "OpenBreaker",
    "PausePool",
    "PauseSchedule",
    "PauseTool",
    "PingEndpoint",
    "PruneJobs",
    "RecountAccount",
    "Recover",
    "RefundJob",
    "RegisterWorker",
    "RemoveFile",
    "RemoveWork",
    "Report",
    "Requeue",
    "ResendDelivery",
    "Reserve",
    "ResizePool",
    "Resubmit",
    "RetryLater",
    "RevokeApiKey",
    "RotateSecret",
    "RunSchedule",
    "SaveCheckpoint",
    "SaveStep",
    "SettleTool",
    "StopBulkAct",
    "StoreFile",
    "Submit",
    "TakeTurn",
    "TimedOut",
    "ToolTerms",
    "UnwrappedCommand",
    "UseApiKey",
    "Verdict",
    "unwrapped",
]


class ActingAs(Command, frozen=True):
    """A command with the name of its caller: unless it is refused, it writes a line to the audit log."""

    actor: str
    command: UnwrappedCommand


UnwrappedCommand = (
    OpenAccount
    | ChangePlan
    | Credit
    | RecountAccount
    | Submit
    | Claim
    | ClaimJob
    | Heartbeat
    | SaveCheckpoint
    | SaveStep
    | Report
    | Note
    | NoteStart
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
    | RefundJob
    | DeclarePool
    | PausePool
    | ResizePool
    | PauseTool
    | CloseSubmits
    | HoldBack
    | SettleTool
    | RegisterWorker
    | Elect
    | CreateApiKey
    | RevokeApiKey
    | UseApiKey
    | DeclareHook
    | NoteConfiguration
    | ForgetHook
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
    | BeginBulkAct
    | HoldBulkAct
    | AdvanceBulkAct
    | StopBulkAct
    | ChangeSession
    | HearSession
    | EndSession
    | FoldFigures
    | CorrectQueue
    | ForgetRollups
    | NoteVerification
    | DeclareSchedule
    | PauseSchedule
    | FireSchedule
    | RunSchedule
    | PruneJobs
    | MoveRetention
    | CloseAccount
    | EraseRows
)
AnyCommand = UnwrappedCommand | ActingAs


def unwrapped(command: Command) -> Command:
    """The command itself, without the caller's name."""
    return command.command if type(command) is ActingAs else command
