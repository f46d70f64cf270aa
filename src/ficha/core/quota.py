"""Quota: active jobs and reserved slots together never exceed the plan's `max_active`."""

from __future__ import annotations

from msgspec.structs import replace

from .commands import EndReservation, ExpireReservation, Reserve
from .outcomes import Forgotten, Refusal, ReservationChanged
from .policy import MILLISECOND, Plan, submits_this_hour
from .records import Account, Reservation, ReservationState
from .refusals import account_closed, no_account, no_plan, no_reservation
from .rule import Audited, Needs, Rule
from .workspace import Workspace


def reserve(ws: Workspace, command: Reserve) -> ReservationChanged | Refusal:
    """Holds one slot of the account's quota."""
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    if (closed := account_closed(account)) is not None:
        return closed
    plan = ws.plan(account)
    if plan is None:
        return no_plan(account.plan, ws.policy)
    if ws.reservation(command.reservation_id) is not None:
        return Refusal(
            "INVALID_STATE", f"the reservation {command.reservation_id} exists already; nothing was changed."
        )
    if command.ttl_ms is not None and command.ttl_ms > (longest_ms := ws.policy.reservation_ttl_max_ms):
        return Refusal(
            "INVALID_ARGUMENT",
            f"ttl_s may be at most {longest_ms / 1_000:g}, not {command.ttl_ms / 1_000:g}; nothing was reserved. Ask "
            "for less, or raise the application's reservation_ttl_max_s.",
            details={"limit": longest_ms / 1_000},
        )
    if (refusal := refuse_quota(ws, account, plan, 1, reserved=False, counts_parts=command.counts_parts)) is not None:
        return refusal
    ttl_ms = ws.policy.reservation_ttl_ms if command.ttl_ms is None else command.ttl_ms
    held = Reservation(command.reservation_id, account.id, "active", ws.now, ws.now + ttl_ms * MILLISECOND)
    ws.put_reservation(held)
    return ReservationChanged(held, quota_warnings=quota_warnings(ws, account, plan, counts_parts=command.counts_parts))


def end(ws: Workspace, command: EndReservation) -> ReservationChanged | Refusal:
    """Ends a reservation, so that its slot is no longer reserved. Ending it the same way again changes nothing."""
    held = ws.reservation(command.reservation_id)
    if held is None or command.account_id not in (None, held.account_id):
        return no_reservation(command.reservation_id)
    if held.state == command.state:
        return ReservationChanged(held, changed=False)
    if (refusal := _refuse_unless_active(held, ws.now)) is not None:
        return refusal
    held = replace(held, state=command.state)
    ws.put_reservation(held)
    return ReservationChanged(held)


def expire(ws: Workspace, command: ExpireReservation) -> Forgotten:
    """Marks an active reservation past its time as expired; it stopped counting at that time already. Deletes a
    reservation that ended, in whatever way, if its time was over long ago."""
    held = ws.reservation(command.reservation_id)
    if held is None or held.expires_at > ws.now:
        return Forgotten(changed=False)
    if held.state == "active":
        ws.put_reservation(replace(held, state="expired"))
    elif held.expires_at + ws.policy.reservations_kept_ms * MILLISECOND <= ws.now:
        ws.forget_reservation(held.id)
    else:
        return Forgotten(changed=False)
    return Forgotten(changed=True)


def state_of(held: Reservation, now: int) -> ReservationState:
    """The state now: an active reservation past its time has expired, swept or not."""
    return "expired" if held.state == "active" and held.expires_at <= now else held.state


def consumed(ws: Workspace, reservation_id: str, job_id: str) -> None:
    """Marks the reservation that a submit has used."""
    held = ws.reservation(reservation_id)
    assert held is not None
    ws.put_reservation(replace(held, state="consumed", job_id=job_id))


def refuse_reservation(ws: Workspace, reservation_id: str | None, account_id: str) -> Refusal | None:
    """The refusal, if a submit may not use this reservation."""
    if reservation_id is None:
        return None
    held = ws.reservation(reservation_id)
    if held is None or held.account_id != account_id:
        return no_reservation(reservation_id)
    return _refuse_unless_active(held, ws.now)


def _refuse_unless_active(held: Reservation, now: int) -> Refusal | None:
    state = state_of(held, now)
    if state == "active":
        return None
    return Refusal(
        "INVALID_STATE",
        f"reservation {held.id} is {state}; nothing was changed. Make a new reservation.",
        details={"state": state},
    )


def refuse_quota(
    ws: Workspace, account: Account, plan: Plan, wanted: int, *, reserved: bool, counts_parts: bool
) -> Refusal | None:
    """The refusal, if the account may not have `wanted` more active jobs; one of them may use a reservation.

    A split request is one active job. `counts_parts` says whether the parts are loaded, so that they can be told apart;
    otherwise each of them counts. So a call that is refused without is made again with, and most calls load nothing.
    """
    if plan.max_active is None or wanted == 0:
        return None
    holds = ws.reservations_of(account.id)
    active = _active(ws, account, counts_parts)
    if active + holds - reserved + wanted <= plan.max_active:
        return None
    details = {"limit": plan.max_active, "active": active, "reserved": holds}
    if plan.max_active == 1 and active and wanted == 1:
        # The part that was submitted last may have ended before the others.
        latest = account.latest_job or next(iter(ws.open_requests(account.id) if counts_parts else ()), None)
        named = f"job {latest}" if latest else "a job"
        return Refusal(
            "ACTIVE_JOB_EXISTS",
            f"plan {plan.name} allows one active job and {named} of account {account.id} is active; wait for it or "
            "cancel it.",
            details={**details, "job_id": latest},
        )
    return Refusal(
        "QUOTA_EXCEEDED",
        f"plan {plan.name} allows {plan.max_active} active jobs; account {account.id} has {active} and "
        f"{holds} reserved, and asks for {wanted} more. Wait for one to end, cancel one or release a reservation.",
        details=details,
    )


def _active(ws: Workspace, account: Account, counts_parts: bool) -> int:
    """How many requests of the account have not ended."""
    if not counts_parts:
        return account.active
    return account.active - sum(parts - 1 for parts in ws.open_requests(account.id).values())


def quota_warnings(ws: Workspace, account: Account, plan: Plan, *, counts_parts: bool) -> tuple[str, ...]:
    """A warning for each quota that the account is near, after the command."""
    share = ws.policy.warn_share
    warnings: tuple[str, ...] = ()
    if (limit := plan.max_active) is not None and limit > 1:
        used = _active(ws, account, counts_parts) + ws.reservations_of(account.id)
        if used >= limit * share:
            warnings = (f"{used} of {limit} active jobs",)
    if (limit := plan.per_hour) is not None and limit > 1:
        used = submits_this_hour(account, ws.now)
        if used >= limit * share:
            warnings += (f"{used} of {limit} jobs this hour",)
    return warnings


def _needs_account(wanted: Needs, command: Reserve) -> None:
    wanted.accounts.add(command.account_id)
    wanted.reservations_of.add(command.account_id)
    wanted.reservations.add(command.reservation_id)
    if command.counts_parts:
        wanted.parts_of.add(command.account_id)


def _needs_reservation(wanted: Needs, command: EndReservation | ExpireReservation) -> None:
    wanted.reservations.add(command.reservation_id)


def _audit_reserve(command: Reserve, _: ReservationChanged) -> Audited:
    return Audited("reserve", f"reservation {command.reservation_id}", {"account": command.account_id})


def _audit_end(command: EndReservation, _: ReservationChanged) -> Audited:
    return Audited("consume" if command.state == "consumed" else "release", f"reservation {command.reservation_id}")


RULES = (
    Rule(
        Reserve,
        decide=reserve,
        needs=_needs_account,
        refuses=(
            *("ACCOUNT_CLOSED", "ACTIVE_JOB_EXISTS", "INVALID_ARGUMENT", "INVALID_STATE", "NOT_FOUND"),
            "QUOTA_EXCEEDED",
        ),
        audit=_audit_reserve,
    ),
    Rule(
        EndReservation, decide=end, needs=_needs_reservation, refuses=("INVALID_STATE", "NOT_FOUND"), audit=_audit_end
    ),
    Rule(ExpireReservation, decide=expire, needs=_needs_reservation),
)
