"""Outcomes in the words of the scenario tables."""

from __future__ import annotations

from typing import Any

from ficha.core import outcomes as o

Told = tuple[str, dict[str, Any]]
"""What a line led to: the words, and the facts by name."""


def told(outcome: o.Outcome) -> Told:
    """An outcome in the words of the tables."""
    match outcome:
        case o.Refusal(code, message, retry_after_s, details):
            named = {("job" if name == "job_id" else name): value for name, value in details.items()}
            return code, {**named, "says": message, "retry_after": retry_after_s, "retryable": outcome.retryable}
        case o.AccountChanged():
            return "", {"balance": outcome.account.balance, "plan": outcome.account.plan, "repeated": outcome.repeated}
        case o.Submitted():
            return outcome.status, {
                "job": outcome.job_id,
                "pool": outcome.pool,
                "priority": outcome.priority,
                "waits": outcome.rank is not None,
                "cost": outcome.cost,
                "balance": outcome.new_balance,
                "jobs": outcome.jobs,
                "batch": outcome.batch_id,
                "repeat": outcome.idempotent_hit,
                "warns": "; ".join(outcome.quota_warnings) or None,
                "spending": outcome.cost_limit_warning,
                "left": None if outcome.rate is None else outcome.rate.left,
                "resets": None if outcome.rate is None else outcome.rate.resets_s,
                "left_out": outcome.left_out or None,
                "because": None if outcome.refusal is None else outcome.refusal.code,
            }
        case o.Claimed(leases):
            first = leases[0] if leases else None
            facts = {} if first is None else {"epoch": first.epoch, "payload": first.payload, "worker": first.worker}
            if first is not None:
                facts.update(until=first.expires_at, deadline=first.deadline_at)
            facts.update(behind=",".join(outcome.behind) or None, answered=",".join(outcome.answered) or None)
            return ", ".join(lease.job.id for lease in leases) or "nothing", facts
        case o.Held():
            return outcome.status, {"until": outcome.expires_at, "deadline": outcome.deadline_at}
        case o.StepSaved():
            return outcome.result_json, {}
        case o.Finished():
            facts = {"refunded": outcome.refunded, "balance": outcome.new_balance, "due": outcome.due_at}
            return outcome.status if outcome.changed else "unchanged", {**facts, "status": outcome.status}
        case o.ReservationChanged():
            warns = "; ".join(outcome.quota_warnings) or None
            facts = {"until": outcome.reservation.expires_at, "changed": outcome.changed, "warns": warns}
            return outcome.reservation.state, facts
        case o.Recovered():
            return outcome.act, {"refunded": outcome.refunded}
        case o.Forgotten():
            return "cleared" if outcome.changed else "kept", {}
        case o.Discarded():
            return "discarded" if outcome.changed else "unchanged", {}
        case o.WorkRemoved():
            return "removed" if outcome.changed else "unchanged", {"files": ",".join(outcome.files) or None}
        case o.Pruned(removals):
            head = ",".join(removals.values()) or "nothing"
            facts = {"kept": outcome.kept, "batches": outcome.batches, "files": ",".join(outcome.files) or None}
            return head if outcome.changed else "unchanged", facts
        case o.ClosedAccount():
            return "closed" if outcome.changed else "unchanged", {"balance": outcome.account.balance}
        case o.RowsErased():
            return "erased" if outcome.changed else "unchanged", {"rows": outcome.rows}
        case o.PoolChanged(pool):
            return "", {"slots": pool.limit, "declared": pool.slots, "paused": pool.paused}
        case o.ConfigurationNoted(told):
            return "told" if told else "unchanged", {"told": ", ".join(told)}
        case o.BrakeChanged(brake):
            facts = {} if brake is None else {"paused": brake.paused, "closed": brake.closed}
            return "" if outcome.changed else "unchanged", facts
        case o.HeldBack():
            return "moved" if outcome.changed else "unchanged", {}
        case o.ApiKeyChanged(key):
            facts = {"until": key.expires_at, "account": key.account_id, "scope": key.scope}
            return "revoked" if key.revoked_at is not None else "made", {**facts, "changed": outcome.changed}
        case o.Recounted():
            return "recounted" if outcome.changed else "unchanged", {**outcome.corrected}
        case o.Used():
            return "used", {}
        case o.TurnTaken():
            return "probe" if outcome.is_probe else "taken", {"wait": f"{outcome.wait_ms}ms"}
        case o.TurnEnded():
            return "open" if outcome.is_open else "closed", {}
        case o.VerificationNoted(violations):
            return "noted", {"violations": violations}
        case o.BreakerChanged(outage):
            facts = {"changed": outcome.changed, "until": None if outage is None else outage.until_at}
            return "closed" if outage is None else "open", facts
        case o.FileChanged(file):
            facts = {"size": file.size, "until": file.expires_at, "role": file.role, "changed": outcome.changed}
            return file.state, facts
        case o.EndpointChanged(endpoint):
            return "disabled" if endpoint.disabled_at is not None else "enabled", {"changed": outcome.changed}
        case o.DeliveryChanged(delivery):
            return delivery.state, {"changed": outcome.changed}
        case o.CallbackNoted():
            return "asks" if outcome.asks else "kept", {}
        case o.PollHeld(job):
            return "held" if job is not None else "nothing", {} if job is None else {"job": job.id}
        case o.PollEnded():
            return "", {"next": outcome.poll_at}
        case o.HookForgotten():
            return "forgotten" if outcome.changed else "unchanged", {}
        case o.ScheduleChanged(schedule):
            return "paused" if schedule.paused else "active", {"changed": outcome.changed, "settled": schedule.slot_at}
        case o.ScheduleFired(schedule):
            made = outcome.submitted
            facts = {} if schedule is None else {"settled": schedule.slot_at, "fired": schedule.fired}
            head = "unchanged" if not outcome.changed else "passed" if made is None else made.job_id
            return head, {**facts, "code": None if schedule is None else schedule.last_code}
        case o.BulkActChanged(act):
            return act.state, {"changed": outcome.changed, "total": act.total}
        case o.BulkActHeld(act):
            facts = {} if act is None else {"hold": act.holds, "done": act.done, "failed": act.failed}
            return "nothing" if act is None else act.state, facts
        case o.SessionChanged(_, session):
            return "left" if session.is_left else "open", {"until": session.ends_at, "changed": outcome.changed}
        case o.SessionHeard():
            return "open" if outcome.changed else "unknown", {}
        case o.SessionEnded():
            return "ended" if outcome.changed else "unchanged", {"cancelled": outcome.cancelled}
        case o.Elected():
            return "leads" if outcome.leads else "follows", {"owner": outcome.owner, "until": outcome.expires_at}
    raise AssertionError(f"{outcome} has no words yet")
