"""Puts an account's counters right where they disagree with its rows: after a row was changed by hand, say.

The rules keep counters and rows together, so in an untouched database there is nothing to do here. A balance is never
changed: it belongs to the ledger, and what disagrees with the ledger is for a person to look at.
"""

from __future__ import annotations

from msgspec.structs import replace

from .commands import RecountAccount
from .outcomes import Recounted, Refusal
from .promote import promote
from .records import Account, AccountRows, FileUsage
from .refusals import no_account
from .rule import Audited, Needs, Rule
from .workspace import Workspace


def recount_account(ws: Workspace, command: RecountAccount) -> Recounted | Refusal:
    if (account := ws.account(command.account_id)) is None:
        return no_account(command.account_id)
    loaded = ws.as_loaded(account.id)
    corrected = {} if loaded is None else _corrections(*loaded)
    _correct(ws, account, corrected)
    return Recounted(account.id, corrected, _promoted(ws, account.id))


def _corrections(account: Account | None, usage: FileUsage, rows: AccountRows) -> dict[str, int]:
    """What has to be added to each counter that is wrong."""
    if account is None:  # It was opened by this group, which counts from nothing.
        return {}
    found = {
        name: getattr(rows, name) - getattr(account, name) for name in ("active", "admitted", "parked", "reserved")
    }
    # Deleted jobs were submitted too, so the counter may be higher than the number of rows.
    found["submitted"] = max(0, rows.jobs - account.submitted)
    found["latest_job"] = -int(rows.names_ended_job)
    found |= {"files": rows.files - usage.files, "size": rows.size - usage.size}
    return {name: by for name, by in found.items() if by}


def _correct(ws: Workspace, account: Account, corrected: dict[str, int]) -> None:
    counters = ("active", "admitted", "parked", "reserved", "submitted")
    if any(name in corrected for name in (*counters, "latest_job")):
        right = {name: getattr(account, name) + corrected.get(name, 0) for name in counters}
        latest = None if "latest_job" in corrected else account.latest_job
        ws.put_account(replace(account, **right, latest_job=latest))
    if "files" in corrected or "size" in corrected:
        usage = ws.find(FileUsage, account.id) or FileUsage(account.id)
        files, size = usage.files + corrected.get("files", 0), usage.size + corrected.get("size", 0)
        ws.put(replace(usage, files=files, size=size))


def _promoted(ws: Workspace, account_id: str) -> int:
    """Promotes one parked job if the account has no other whose end would promote it. Returns how many became ready."""
    account = ws.account(account_id)
    assert account is not None
    if not account.parked or account.admitted:
        return 0
    promote(ws, account_id, at_most=1)
    after = ws.account(account_id)
    assert after is not None
    return after.admitted


def _needs(wanted: Needs, command: RecountAccount) -> None:
    wanted.accounts.add(command.account_id)
    wanted.parked_of.add(command.account_id)
    wanted.rows_of.add(command.account_id)
    wanted.find(FileUsage, command.account_id)


def _audit(command: RecountAccount, done: Recounted) -> Audited:
    return Audited("recount", f"account {command.account_id}", {**done.corrected, "promoted": done.promoted})


RULES = (Rule(RecountAccount, decide=recount_account, needs=_needs, refuses=("NOT_FOUND",), audit=_audit),)
