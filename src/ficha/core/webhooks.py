"""Webhooks: which endpoints get which events, and each message until it is delivered or given up.

The decision that changes a job also adds a hook for the message. So no change is lost, and none that was rolled back is
sent. The process that runs the hook makes one delivery per endpoint, in one transaction with the hook's end. Then each
delivery is held and ended by itself: a slow or unreachable endpoint delays no other.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec.structs import replace

from .audit import record_of_system
from .commands import (
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
from .outcomes import DeliveriesMade, DeliveryChanged, DeliveryEnded, DeliveryHeld, EndpointChanged, Forgotten, Refusal
from .policy import CREDITS_LOW_HOOK, JOB_ENDED_HOOK, MILLISECOND, SECOND, Webhooks
from .records import Delivery, Endpoint, WebhookEndpoints
from .refusals import account_closed, no_account
from .rule import Audited, Needs, Rule
from .workspace import Workspace

OPERATOR: Final = ""
"""The owner of the operator's own endpoints, which get the events of every account."""
TEST: Final = "webhook.test"
WebhookEvent = Literal["job.completed", "job.failed", "job.cancelled", "credits.low"]
"""What an endpoint may ask for. A test is sent to any."""
EVENTS: Final[tuple[WebhookEvent, ...]] = get_args(WebhookEvent)
MOST_SECRETS: Final = 3
"""How many secrets of an endpoint may be valid at the same time."""
TEST_EVERY_S: Final = 5
HOUR: Final = 3_600 * SECOND
"""The shortest time between two tests of one endpoint."""
PAUSES_S: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The pauses after failed attempts. The attempt after the last pause, three days after the first, is the last one."""
AFTER_LOW: Final = "it waits for the message that credits are low"
GONE: Final = 410
"""The status with which a receiver asks for no more messages."""


def add_endpoint(ws: Workspace, command: AddEndpoint) -> EndpointChanged | Refusal:
    terms = ws.policy.webhooks
    if terms is None:
        return Refusal(
            "INVALID_STATE",
            "this application sends no webhooks, so nothing was changed; it sends them with Ficha(webhooks=True).",
        )
    if command.owner != OPERATOR:
        account = ws.account(command.owner)
        if (refusal := no_account(command.owner) if account is None else account_closed(account)) is not None:
            return refusal
    known = _endpoints(ws, command.owner)
    if any(endpoint.id == command.endpoint_id for endpoint in known):
        return Refusal("INVALID_STATE", f"the endpoint {command.endpoint_id} exists already; nothing was changed.")
    if len(known) >= terms.max_endpoints:
        return Refusal(
            "QUOTA_EXCEEDED",
            f"{len(known)} webhook endpoints exist already, and {terms.max_endpoints} are allowed; nothing was "
            "changed. Remove one first.",
            details={"limit": terms.max_endpoints, "used": len(known)},
        )
    endpoint = Endpoint(
        command.endpoint_id,
        command.url,
        command.events,
        ((command.secret, None),),
        ws.now,
        command.description,
    )
    _put(ws, command.owner, (*known, endpoint))
    return EndpointChanged(endpoint)


def change_endpoint(ws: Workspace, command: ChangeEndpoint) -> EndpointChanged | Refusal:
    """Removes or enables an endpoint. A removed endpoint gets nothing more: its pending messages are given up when they
    are next due. An enabled endpoint gets the events from now on."""
    endpoint = _endpoint(ws, command.owner, command.endpoint_id)
    if endpoint is None:
        return _no_endpoint(command.endpoint_id)
    if command.to == "removed":
        _put(ws, command.owner, tuple(one for one in _endpoints(ws, command.owner) if one.id != endpoint.id))
        return EndpointChanged(endpoint)
    if endpoint.disabled_at is None:
        return EndpointChanged(endpoint, changed=False)
    enabled = replace(endpoint, disabled_at=None, disabled_reason=None, failing_since_at=None)
    return _changed(ws, command.owner, enabled)


def rotate_secret(ws: Workspace, command: RotateSecret) -> EndpointChanged | Refusal:
    """The new secret signs from now on, and the earlier ones beside it until the overlap is over."""
    endpoint = _endpoint(ws, command.owner, command.endpoint_id)
    if endpoint is None:
        return _no_endpoint(command.endpoint_id)
    until_at = ws.now + command.overlap_ms * MILLISECOND
    kept = tuple(
        (secret, until_at if ends_at is None else min(ends_at, until_at))
        for secret, ends_at in endpoint.secrets
        if min(until_at, until_at if ends_at is None else ends_at) > ws.now
    )
    if len(kept) >= MOST_SECRETS:
        return Refusal(
            "INVALID_STATE",
            f"{len(kept)} secrets of the endpoint {endpoint.id} are valid still; nothing was changed. Wait for the "
            "overlap of the earlier ones, or rotate with an overlap of 0, which ends them all.",
        )
    return _changed(ws, command.owner, replace(endpoint, secrets=((command.secret, None), *kept)))


def ping_endpoint(ws: Workspace, command: PingEndpoint) -> DeliveryChanged | Refusal:
    """Sends a test message, which is not retried."""
    endpoint = _endpoint(ws, command.owner, command.endpoint_id)
    if endpoint is None:
        return _no_endpoint(command.endpoint_id)
    if endpoint.disabled_at is not None:
        return _disabled(endpoint)
    wait_us = 0 if endpoint.tested_at is None else endpoint.tested_at + TEST_EVERY_S * SECOND - ws.now
    if wait_us > 0:
        return Refusal(
            "RATE_LIMITED",
            f"the endpoint {endpoint.id} was tested a moment ago; one test in {TEST_EVERY_S} s is sent.",
            retry_after_s=-(-wait_us // SECOND),
        )
    _changed(ws, command.owner, replace(endpoint, tested_at=ws.now))
    made = Delivery(
        command.delivery_id, command.owner, endpoint.id, TEST, command.owner, None, command.body, ws.now, ws.now
    )
    ws.put(made)
    return DeliveryChanged(made)


def make_deliveries(ws: Workspace, command: MakeDeliveries) -> DeliveriesMade:
    """Makes one delivery for each endpoint that asks for the event, and ends the hook."""
    hook = ws.hook(command.hook, command.job_id)
    if hook is None or hook.attempts != command.attempt:
        return DeliveriesMade(0, changed=False)
    low, end = (ws.hook(name, command.job_id) for name in (CREDITS_LOW_HOOK, JOB_ENDED_HOOK))
    if hook == end and low is not None:
        # The messages about a job are made in the order of its events.
        ws.put_hook(replace(hook, due_at=max(ws.now, low.due_at), error=AFTER_LOW))
        return DeliveriesMade(0, changed=False)
    if hook == low and end is not None and end.error == AFTER_LOW:
        ws.put_hook(replace(end, due_at=ws.now, attempts=0, error=None))
    ws.end_hook(hook)
    made = 0
    for owner, endpoint_id, delivery_id in command.deliveries:
        endpoint = _endpoint(ws, owner, endpoint_id)
        if endpoint is not None and is_told(endpoint, command.event):
            job_id, body = command.job_id, command.body
            ws.put(
                Delivery(
                    delivery_id, owner, endpoint_id, command.event, command.account_id, job_id, body, ws.now, ws.now
                )
            )
            made += 1
    return DeliveriesMade(made)


def is_told(endpoint: Endpoint, event: str) -> bool:
    """Whether an endpoint gets messages of this event."""
    return endpoint.disabled_at is None and (not endpoint.events or event in endpoint.events)


def hold_delivery(ws: Workspace, command: HoldDelivery) -> DeliveryHeld:
    """Takes a delivery that is due, to send it. One whose endpoint is gone ends here."""
    delivery = ws.find(Delivery, command.delivery_id)
    if delivery is None or delivery.state != "pending" or delivery.due_at > ws.now:
        return DeliveryHeld()
    endpoint = _endpoint(ws, delivery.owner, delivery.endpoint_id) if delivery.owner == command.owner else None
    if endpoint is None or endpoint.disabled_at is not None:
        words = "the endpoint was removed" if endpoint is None else "the endpoint is disabled"
        ws.put(replace(delivery, state="failed", error=words, ended_at=ws.now))
        return DeliveryHeld()
    held = replace(delivery, due_at=ws.now + command.hold_ms * MILLISECOND, attempts=delivery.attempts + 1)
    ws.put(held)
    return DeliveryHeld(held, endpoint)


def end_delivery(ws: Workspace, command: EndDelivery) -> DeliveryEnded:
    """Records how an attempt ended: the message was delivered, is to be retried, or is given up. Without an owner, the
    endpoint stays as it is."""
    delivery = ws.find(Delivery, command.delivery_id)
    if delivery is None or delivery.state != "pending" or delivery.attempts != command.attempt:
        return DeliveryEnded(changed=False)
    delivery = replace(delivery, answered=command.status, error=command.error)
    is_delivered = command.status is not None and 200 <= command.status < 300
    if is_delivered:
        ws.put(replace(delivery, state="delivered", ended_at=ws.now))
    else:
        _fail(ws, delivery, command)
    disabled = False
    endpoint = _endpoint(ws, delivery.owner, delivery.endpoint_id) if delivery.owner == command.owner else None
    if endpoint is not None and endpoint.disabled_at is None:
        judged = _judged(ws, endpoint, command.status, is_delivered=is_delivered)
        disabled = judged.disabled_at is not None
        if judged != endpoint:
            _changed(ws, delivery.owner, judged)
        if disabled:
            owner, reason = delivery.owner or "operator", judged.disabled_reason
            record_of_system(ws, "disable_webhook", f"webhook {endpoint.id}", owner or None, owner=owner, reason=reason)
    return DeliveryEnded(disabled=disabled)


def _fail(ws: Workspace, delivery: Delivery, command: EndDelivery) -> None:
    tries = delivery.attempts - delivery.earlier_attempts
    if command.status == GONE or delivery.event == TEST or tries > len(PAUSES_S):
        ws.put(replace(delivery, state="failed", ended_at=ws.now))
    else:
        ws.put(replace(delivery, due_at=ws.now + pause_us(tries, command.jitter)))


def pause_us(tries: int, jitter: float) -> int:
    """Returns how long a delivery waits after `tries` failed tries. Jitter shortens it by up to a tenth, so that not
    all retries come at once."""
    return int(PAUSES_S[tries - 1] * SECOND * (1 - jitter / 10))


def _judged(ws: Workspace, endpoint: Endpoint, status: int | None, *, is_delivered: bool) -> Endpoint:
    """Returns the endpoint after an attempt: disabled if it answered 410, or if it has failed for too long."""
    if is_delivered:
        return endpoint if endpoint.failing_since_at is None else replace(endpoint, failing_since_at=None)
    terms = ws.policy.webhooks or Webhooks()
    since_at = ws.now if endpoint.failing_since_at is None else endpoint.failing_since_at
    failing = replace(endpoint, failing_since_at=since_at)
    if status == GONE:
        return replace(failing, disabled_at=ws.now, disabled_reason="it answered 410: gone")
    if ws.now - since_at >= int(terms.disable_after_s * SECOND):
        return replace(failing, disabled_at=ws.now, disabled_reason="nothing could be delivered for too long")
    return failing


def resend_delivery(ws: Workspace, command: ResendDelivery) -> DeliveryChanged | Refusal:
    """Sends an ended message again, with the same id, however it ended. A pending one that waits for a retry is sent
    now."""
    delivery = ws.find(Delivery, command.delivery_id)
    if delivery is None or delivery.owner != command.owner:
        return Refusal("NOT_FOUND", f"there is no delivery {command.delivery_id}.")
    endpoint = _endpoint(ws, command.owner, delivery.endpoint_id)
    if endpoint is None:
        return Refusal(
            "INVALID_STATE",
            f"the endpoint of delivery {delivery.id} was removed, so it cannot be sent again; nothing was changed.",
        )
    if endpoint.disabled_at is not None:
        return _disabled(endpoint)
    if delivery.state == "pending":
        sooner = replace(delivery, due_at=min(delivery.due_at, ws.now)) if delivery.error is not None else delivery
    else:
        sooner = replace(
            delivery, state="pending", due_at=ws.now, ended_at=None, earlier_attempts=delivery.attempts, error=None
        )
    if sooner == delivery:
        return DeliveryChanged(delivery, changed=False)
    counted = _resend_counted(ws, endpoint)
    if isinstance(counted, Refusal):
        return counted
    _changed(ws, command.owner, counted)
    ws.put(sooner)
    return DeliveryChanged(sooner)


def _resend_counted(ws: Workspace, endpoint: Endpoint) -> Endpoint | Refusal:
    """The endpoint with one more resend: each makes this server call an address that its owner chose."""
    most = (ws.policy.webhooks or Webhooks()).resends_per_hour
    began_at = endpoint.resends_since_at
    if began_at is None or ws.now - began_at >= HOUR:
        return replace(endpoint, resends_since_at=ws.now, resends=1)
    if endpoint.resends >= most:
        return Refusal(
            "RATE_LIMITED",
            f"{most} messages to the endpoint {endpoint.id} were sent again within an hour, the most that are; nothing "
            "was changed.",
            retry_after_s=-(-(began_at + HOUR - ws.now) // SECOND),
            details={"limit": most},
        )
    return replace(endpoint, resends=endpoint.resends + 1)


def forget_delivery(ws: Workspace, command: ForgetDelivery) -> Forgotten:
    """Deletes a delivery that ended long ago."""
    delivery = ws.find(Delivery, command.delivery_id)
    if delivery is None or delivery.ended_at is None or delivery.ended_at > ws.now - kept_us(ws.policy.webhooks):
        return Forgotten(changed=False)
    ws.remove(delivery)
    return Forgotten(changed=True)


def kept_us(terms: Webhooks | None) -> int:
    return int((terms or Webhooks()).kept_s * SECOND)


def _endpoints(ws: Workspace, owner: str) -> tuple[Endpoint, ...]:
    found = ws.find(WebhookEndpoints, owner)
    return () if found is None else found.endpoints


def _endpoint(ws: Workspace, owner: str, endpoint_id: str) -> Endpoint | None:
    return next((endpoint for endpoint in _endpoints(ws, owner) if endpoint.id == endpoint_id), None)


def _put(ws: Workspace, owner: str, endpoints: tuple[Endpoint, ...]) -> None:
    ws.put(WebhookEndpoints(owner, endpoints))


def _changed(ws: Workspace, owner: str, endpoint: Endpoint) -> EndpointChanged:
    _put(ws, owner, tuple(endpoint if one.id == endpoint.id else one for one in _endpoints(ws, owner)))
    return EndpointChanged(endpoint)


def _no_endpoint(endpoint_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no webhook endpoint {endpoint_id}.")


def _disabled(endpoint: Endpoint) -> Refusal:
    return Refusal(
        "INVALID_STATE",
        f"the endpoint {endpoint.id} is disabled ({endpoint.disabled_reason}); nothing was changed. Enable it first.",
    )


def _needs_owner(wanted: Needs, command: AddEndpoint | ChangeEndpoint | RotateSecret) -> None:
    if command.owner != OPERATOR:
        wanted.accounts.add(command.owner)
    wanted.find(WebhookEndpoints, command.owner)


def _needs_ping(wanted: Needs, command: PingEndpoint) -> None:
    wanted.find(WebhookEndpoints, command.owner)
    wanted.find(Delivery, command.delivery_id)


def _needs_job(wanted: Needs, command: MakeDeliveries) -> None:
    wanted.owned_jobs.add(command.job_id)
    wanted.hooks_of.add(command.job_id)
    for owner, _, delivery_id in command.deliveries:
        wanted.find(WebhookEndpoints, owner)
        wanted.find(Delivery, delivery_id)


def _needs_delivery(wanted: Needs, command: HoldDelivery | EndDelivery | ResendDelivery) -> None:
    wanted.find(Delivery, command.delivery_id)
    if command.owner is not None:
        wanted.find(WebhookEndpoints, command.owner)


def _needs_old(wanted: Needs, command: ForgetDelivery) -> None:
    wanted.find(Delivery, command.delivery_id)


def _audit(act: str, command: AddEndpoint | ChangeEndpoint | RotateSecret, host: str) -> Audited:
    """Makes the audit line. It has only the host of the URL: paths and queries hold secrets."""
    return Audited(act, f"webhook {command.endpoint_id}", {"owner": command.owner or "operator", "host": host})


_ACTS: Final = {"removed": "remove_webhook", "enabled": "enable_webhook"}


def _host(outcome: EndpointChanged) -> str:
    return outcome.endpoint.url.partition("://")[2].partition("/")[0].partition("?")[0]


RULES = (
    Rule(
        AddEndpoint,
        decide=add_endpoint,
        needs=_needs_owner,
        refuses=("ACCOUNT_CLOSED", "INVALID_STATE", "NOT_FOUND", "QUOTA_EXCEEDED"),
        audit=lambda command, outcome: _audit("add_webhook", command, _host(outcome)),
    ),
    Rule(
        ChangeEndpoint,
        decide=change_endpoint,
        needs=_needs_owner,
        refuses=("NOT_FOUND",),
        audit=lambda command, outcome: _audit(_ACTS[command.to], command, _host(outcome)),
    ),
    Rule(
        RotateSecret,
        decide=rotate_secret,
        needs=_needs_owner,
        refuses=("INVALID_STATE", "NOT_FOUND"),
        audit=lambda command, outcome: _audit("rotate_webhook_secret", command, _host(outcome)),
    ),
    Rule(
        PingEndpoint,
        decide=ping_endpoint,
        needs=_needs_ping,
        refuses=("INVALID_STATE", "NOT_FOUND", "RATE_LIMITED"),
        audit=lambda command, outcome: Audited("test_webhook", f"webhook {command.endpoint_id}"),
        locks_account=False,
    ),
    Rule(MakeDeliveries, decide=make_deliveries, needs=_needs_job),
    Rule(HoldDelivery, decide=hold_delivery, needs=_needs_delivery, locks_account=False),
    Rule(EndDelivery, decide=end_delivery, needs=_needs_delivery, locks_account=False),
    Rule(
        ResendDelivery,
        decide=resend_delivery,
        needs=_needs_delivery,
        refuses=("INVALID_STATE", "NOT_FOUND", "RATE_LIMITED"),
        audit=lambda command, outcome: Audited("resend_webhook", f"delivery {command.delivery_id}"),
        locks_account=False,
    ),
    Rule(ForgetDelivery, decide=forget_delivery, needs=_needs_old, locks_account=False),
)
