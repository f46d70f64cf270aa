"""The one door to the rules: a snapshot and commands in, changes and outcomes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import accounts, api_keys, audit, cancel, claim, dead, finish, lease, pools, quota, recover, submit, workers
from . import commands as c
from .outcomes import Forgotten, Outcome
from .policy import Policy
from .snapshot import Changes, Snapshot
from .workspace import Workspace


def decide(snapshot: Snapshot, batch: Iterable[c.Command], policy: Policy) -> tuple[Changes, list[Outcome]]:
    """Decides the commands in order, each on what those before it left. A refused command changes nothing."""
    workspace = Workspace(snapshot, policy)
    outcomes = [_RULES[type(command)](workspace, command) for command in batch]
    return workspace.changes(), outcomes


def _forget_key(ws: Workspace, command: c.ForgetKey) -> Forgotten:
    return Forgotten(submit.forget_key(ws, (command.account_id, command.scope, command.key)))


def _audited(ws: Workspace, command: c.ActingAs) -> Outcome:
    outcome = _RULES[type(command.command)](ws, command.command)
    audit.record(ws, command.actor, command.command, outcome)
    return outcome


_RULES: dict[type[c.Command], Callable[[Workspace, Any], Outcome]] = {
    c.OpenAccount: accounts.open_account,
    c.ChangePlan: accounts.change_plan,
    c.Credit: accounts.credit,
    c.Submit: submit.submit,
    c.Claim: claim.claim,
    c.ClaimJob: claim.claim_job,
    c.Start: lease.start,
    c.Heartbeat: lease.heartbeat,
    c.SaveCheckpoint: lease.save_checkpoint,
    c.SaveStep: lease.save_step,
    c.Report: lease.report,
    c.Note: lease.note,
    c.Finish: finish.finish,
    c.Cancel: cancel.cancel,
    c.Reserve: quota.reserve,
    c.Consume: quota.consume,
    c.Release: quota.release,
    c.Recover: recover.recover,
    c.ExpireReservation: quota.expire,
    c.ForgetKey: _forget_key,
    c.Requeue: dead.requeue,
    c.Discard: dead.discard,
    c.DeclarePool: pools.declare_pool,
    c.PausePool: pools.pause_pool,
    c.ResizePool: pools.resize_pool,
    c.RegisterWorker: workers.register_worker,
    c.Elect: pools.elect,
    c.CreateApiKey: api_keys.create,
    c.RevokeApiKey: api_keys.revoke,
    c.UseApiKey: api_keys.use,
    c.ActingAs: _audited,
}
