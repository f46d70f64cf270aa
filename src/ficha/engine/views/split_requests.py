"""A split request as its owner sees it: one job, made of the views of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Raw
from msgspec.structs import replace

from ...core.records import Job
from ...core.split_requests import delivered_by, latest_tries, progress_of, status_of
from ...core.states import FINAL
from .jobs import NULL, JobView, PartView


def request_view(tries: Sequence[tuple[Job, JobView]]) -> JobView:
    """The request as one job, from all tries of its parts.

    Its id is that of its first job, which the submit's receipt names. Counts and money are those of all parts together;
    payloads, results and partial results are lists, with an item for each part. The result of a part that has ended is
    partial until the request has ended.
    """
    by_id = {job.id: view for job, view in tries}
    jobs = latest_tries(job for job, _ in tries)
    views = [by_id[job.id] for job in jobs]
    first, status = views[0], status_of(jobs)
    has_ended, has_failed = status in FINAL, status in ("failed", "cancelled")
    next_one = min((view for view in views if status == view.status == "queued"), key=_turn, default=None)
    failed = next((view for view in views if has_failed and view.status == status), None)
    results = _listed(view.result_json for view in views)
    return replace(
        first,
        id=min(by_id),
        status=status,
        position=None if next_one is None else next_one.position,
        estimated_wait_s=None if next_one is None else next_one.estimated_wait_s,
        waiting_for=None if next_one is None else next_one.waiting_for,
        waited_in_queue=min(view.waited_in_queue for view in views),
        cost=sum(view.cost for view in views),
        charged=sum(view.charged for view in views),
        refunded=sum(view.refunded for view in views),
        units=sum(view.units for view in views),
        delivered=delivered_by(jobs),
        payload_json=_listed(view.payload_json for view in views),
        result_json=results if status == "completed" else NULL,
        partial_json=NULL if has_ended else _listed(map(_so_far, views)),
        resume_data_json=NULL,
        error=None if failed is None else failed.error,
        user_error=None if failed is None else failed.user_error,
        attempts=max(view.attempts for view in views),
        recoveries=sum(view.recoveries for view in views),
        late_finishes=sum(view.late_finishes for view in views),
        callbacks=sum(view.callbacks for view in views),
        # It rises whenever a part starts, as that of one job does.
        epoch=sum(view.epoch for view in views),
        checkpoint=None,
        progress=progress_of(jobs),
        locked_by=None,
        locked_at=None,
        lock_expires_at=None,
        last_heartbeat_at=None,
        provider_ref=None,
        provider_cost=_sum_if_any(view.provider_cost for view in views),
        requeue_of=None,
        is_dead_letter=any(view.is_dead_letter for view in views),
        created_at=min(view.created_at for view in by_id.values()),
        scheduled_at=None if next_one is None else next_one.scheduled_at,
        deadline_at=min((view.deadline_at for view in views if view.deadline_at is not None), default=None),
        started_at=min((view.started_at for view in views if view.started_at is not None), default=None),
        finished_at=_last(view.finished_at for view in views) if has_ended else None,
        removed_at=_last(view.removed_at for view in views),
        payload_removed_at=_last(view.payload_removed_at for view in views),
        part_of=None,
        parts=tuple(map(_part, views)),
    )


def _part(view: JobView) -> PartView:
    return PartView(
        id=view.id,
        status=view.status,
        progress=view.progress,
        units=view.units,
        delivered=view.delivered,
        charged=view.charged,
        refunded=view.refunded,
        user_error=view.user_error,
    )


def _turn(view: JobView) -> float:
    return float("inf") if view.position is None else view.position


def _so_far(view: JobView) -> object:
    return view.result_json if view.status in FINAL else view.partial_json


def _listed(texts: Iterable[object]) -> Raw:
    """A list of JSON texts; null if all of them are."""
    found = [bytes(text) if isinstance(text, Raw) else b"null" for text in texts]
    return NULL if all(text == b"null" for text in found) else Raw(b"[%b]" % b",".join(found))


def _sum_if_any(costs: Iterable[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def _last(times: Iterable[datetime | None]) -> datetime | None:
    """The latest of these times, if all have come."""
    found = [*times]
    known = [time for time in found if time is not None]
    return max(known) if len(known) == len(found) else None
