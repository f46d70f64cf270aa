"""The audit log: what each command is called there, what it was done to, and what of it is worth a line.

A line is small whatever the command holds: no payload, no result, no digest of a key, and texts are cut.
"""

from __future__ import annotations

from typing import Any, Final, Literal, assert_never

from . import commands as c
from .outcomes import ApiKeyChanged, Outcome, Refusal
from .records import AuditLine
from .workspace import Workspace

AuditAct = Literal[
    "adjust",
    "cancel",
    "change_plan",
    "consume",
    "create_api_key",
    "declare_pool",
    "discard",
    "finish",
    "grant",
    "open_account",
    "pause_pool",
    "recover",
    "release",
    "requeue",
    "reserve",
    "resize_pool",
    "resume_pool",
    "revoke_api_key",
    "submit",
]
TEXT_LENGTH: Final = 200
"""Characters of a text that somebody wrote, such as a reason, that a line keeps."""

_TOLD: Final = ("status", "refunded", "balance", "new_balance")
"""What a line tells of an outcome, where the outcome has it."""

Description = tuple[AuditAct, str, dict[str, Any]]


def record(ws: Workspace, actor: str, command: c.UnwrappedCommand, outcome: Outcome) -> None:
    """Writes the line for a command that was not refused."""
    if isinstance(outcome, Refusal) or (described := _described(command, outcome)) is None:
        return
    act, target, details = described
    details |= {name: getattr(outcome, name, None) for name in _TOLD}
    kept = {name: _cut(value) for name, value in details.items() if value is not None}
    if _is_repeat(outcome):
        kept["changed"] = False
    ws.add_audit_line(AuditLine(ws.now, actor, act, target, kept))


def _is_repeat(outcome: Any) -> bool:
    """Whether all was as wanted before, so that nothing was changed now."""
    is_known = getattr(outcome, "repeated", False) or getattr(outcome, "idempotent_hit", False)
    return is_known or not getattr(outcome, "changed", True)


def _cut(value: Any) -> Any:
    return value[:TEXT_LENGTH] + "…" if isinstance(value, str) and len(value) > TEXT_LENGTH else value


def _described(command: c.UnwrappedCommand, outcome: Outcome) -> Description | None:
    """The act, its target and its particulars; None for what workers and the sweeper say all day long."""
    match command:
        case c.OpenAccount():
            return "open_account", _account(command.account_id), {"plan": command.plan, "credits": command.credits}
        case c.ChangePlan():
            return "change_plan", _account(command.account_id), {"plan": command.plan}
        case c.Credit():
            particulars = {"amount": command.amount, "reason": command.reason, "key": command.key}
            return command.kind, _account(command.account_id), particulars
        case c.Submit():
            return "submit", _account(command.account_id), _submitted(command, outcome)
        case c.Finish():
            return "finish", _job(command.job_id), {"ending": type(command.ending).__name__}
        case c.Cancel():
            return "cancel", _job(command.job_id), {"reason": command.reason}
        case c.Recover():
            return "recover", _job(command.job_id), {"act": getattr(outcome, "act", None)}
        case c.Requeue():
            return "requeue", _job(command.job_id), {"as_job": command.new_id}
        case c.Discard():
            return "discard", _job(command.job_id), {}
        case c.Reserve():
            return "reserve", _reservation(command.reservation_id), {"account": command.account_id}
        case c.Consume():
            return "consume", _reservation(command.reservation_id), {}
        case c.Release():
            return "release", _reservation(command.reservation_id), {}
        case c.DeclarePool():
            return "declare_pool", _pool(command.name), {"slots": command.slots}
        case c.PausePool():
            return "pause_pool" if command.paused else "resume_pool", _pool(command.name), {}
        case c.ResizePool():
            return "resize_pool", _pool(command.name), {"slots": command.slots}
        case c.CreateApiKey():
            return "create_api_key", _api_key(command.key_id), _key(outcome)
        case c.RevokeApiKey():
            return "revoke_api_key", _api_key(command.key_id), _key(outcome)
        case c.Claim() | c.ClaimJob() | c.Start() | c.Heartbeat() | c.SaveCheckpoint() | c.SaveStep() | c.Report():
            return None
        case c.Note() | c.RegisterWorker() | c.UseApiKey() | c.Elect() | c.ExpireReservation() | c.ForgetKey():
            return None
        case _:
            assert_never(command)


def _account(account_id: str) -> str:
    return f"account {account_id}"


def _job(job_id: str) -> str:
    return f"job {job_id}"


def _pool(name: str) -> str:
    return f"pool {name}"


def _reservation(reservation_id: str) -> str:
    return f"reservation {reservation_id}"


def _api_key(key_id: str) -> str:
    return f"API key {key_id}"


def _submitted(command: c.Submit, outcome: Outcome) -> dict[str, Any]:
    told = {name: getattr(outcome, name, None) for name in ("job_id", "batch_id", "jobs", "cost")}
    return {"tool": command.jobs[0].tool, "key": command.key, **told}


def _key(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, ApiKeyChanged)
    key = outcome.key
    return {"name": key.name, "scope": key.scope, "hint": key.hint, "account": key.account_id}
